"""Twenty-five short reports in German, Chinese, Japanese, Korean and Russian, ten of them duplicates.

Duplicates differ from their originals in upper and lower case, in how characters are written (ß, ё, composed or with a
separate accent, wide or narrow), in particles and in blanks.
"""

import unicodedata

# id, id of the original or "", title, description
REPORTS = [
    ("de1", "", "Druckvorschau zeigt große Ränder", "Die Ränder der Seite sind außen viel zu breit."),
    ("de2", "", "Passwort fehlt nach dem Schließen", "Beim Öffnen der Einstellungen ist das Feld leer."),
    ("de3", "", "Kalender zeigt die falsche Woche", "Die Woche beginnt am Sonntag."),
    ("zh1", "", "保存大文件时程序崩溃", "打开编辑器，修改一个超过1GB的文件，点击保存，程序立即崩溃。"),
    ("zh2", "", "登录页面不显示验证码", "刷新页面后，验证码图片仍然是空白。"),
    ("zh3", "", "中文输入法下光标位置错误", "光标总是停在上一行。"),
    ("ja1", "", "印刷プレビューで文字化けする", "日本語のフォントを選ぶと、プレビューの文字が化けます。"),
    ("ja2", "", "ファイルを開くときにエラーが発生する", "ネットワーク上のファイルで起こります。"),
    ("ja3", "", "カレンダーの通知が届かない", "設定では通知は有効です。"),
    ("ko1", "", "첨부 파일을 다운로드할 수 없습니다", "첨부파일을 클릭하면 오류가 발생합니다."),
    ("ko2", "", "검색 결과가 정렬되지 않음", "날짜순으로 정렬해도 순서가 그대로입니다."),
    ("ko3", "", "화면 글꼴이 너무 작습니다", "글꼴 크기를 바꿀 수 없습니다."),
    ("ru1", "", "Приложение вылетает при открытии отчёта", "Открываю отчёт за год, и приложение закрывается."),
    ("ru2", "", "Не сохраняется подпись письма", "После перезапуска новая подпись снова пустая."),
    ("ru3", "", "Неверный часовой пояс в календаре", "Встречи сдвинуты на час."),
    ("de1b", "de1", unicodedata.normalize("NFD", "RÄNDER ZU GROSS"), "In der Vorschau des Dialogs."),
    ("de2b", "de2", "Feld leer nach Schliessen und Oeffnen", "Das PASSWORT der Einstellungen ist weg."),
    ("zh1b", "zh1", "编辑器保存超过１ＧＢ的文件后崩溃", "每次都能重现。"),
    ("zh2b", "zh2", "验证码图片空白，无法登录", "换了浏览器也一样。"),
    ("ja1b", "ja1", "ﾌﾟﾚﾋﾞｭｰの日本語が文字化け", "紙には正しく出ます。"),
    ("ja2b", "ja2", "共有フォルダのファイルが開けない", "ネットワーク上のファイルを開くとエラーになります。"),
    ("ko1b", "ko1", "첨부파일 다운로드 오류", "메일에 첨부된 파일입니다."),
    ("ko2b", "ko2", unicodedata.normalize("NFD", "날짜순 정렬이 검색결과에 적용되지 않습니다"), ""),
    ("ru1b", "ru1", "ПРИ ОТКРЫТИИ ОТЧЕТА ПРОГРАММА ЗАКРЫВАЕТСЯ", "Год любой."),
    ("ru2b", "ru2", unicodedata.normalize("NFD", "Пустая подпись: новая не сохраняется"), ""),
]
