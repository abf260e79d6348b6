"""The node types of declared Java types, by their simple names."""

from typing import TYPE_CHECKING

from gedbd.code.semantic_graph import NodeType

if TYPE_CHECKING:
    from tree_sitter import Node

_BY_TYPE = {
    NodeType.NULL: "var",
    NodeType.INTEGER: "int Integer",
    NodeType.FLOAT: "float Float",
    NodeType.LONG: "long Long",
    NodeType.DOUBLE: "double Double",
    NodeType.VOID: "void Void",
    NodeType.BOOLEAN: "boolean Boolean",
    NodeType.BYTE: "byte Byte",
    NodeType.CHARACTER: "char Character",
    NodeType.SHORT: "short Short",
    NodeType.DATE: """
        Calendar Date GregorianCalendar Instant LocalDate LocalDateTime LocalTime MonthDay OffsetDateTime OffsetTime
        Year YearMonth ZonedDateTime""",
    NodeType.ITERABLE: "Enumeration Iterable Iterator ListIterator PrimitiveIterator Spliterator",
    NodeType.COLLECTION: """
        AbstractCollection AbstractQueue ArrayBlockingQueue ArrayDeque BlockingDeque BlockingQueue Collection
        ConcurrentLinkedDeque ConcurrentLinkedQueue DelayQueue Deque LinkedBlockingDeque LinkedBlockingQueue
        LinkedTransferQueue PriorityBlockingQueue PriorityQueue Queue SequencedCollection Stack SynchronousQueue
        TransferQueue""",
    NodeType.LIST: "AbstractList AbstractSequentialList ArrayList CopyOnWriteArrayList LinkedList List Vector",
    NodeType.SET: """
        AbstractSet ConcurrentSkipListSet CopyOnWriteArraySet EnumSet HashSet LinkedHashSet NavigableSet SequencedSet
        Set SortedSet TreeSet""",
    NodeType.MAP: """
        AbstractMap ConcurrentHashMap ConcurrentMap ConcurrentNavigableMap ConcurrentSkipListMap Dictionary EnumMap
        HashMap Hashtable IdentityHashMap LinkedHashMap Map NavigableMap Properties SequencedMap SortedMap TreeMap
        WeakHashMap""",
    NodeType.STRING: "CharSequence String StringBuffer StringBuilder",
}

# Public classes of java.lang (with annotation, invoke, ref, reflect), java.io, java.math, java.net, java.nio,
# java.security, java.sql, java.text, java.time, java.util and their packages, without those above.
_OTHER_JDK = """
    AbstractMethodError Appendable ArithmeticException ArrayIndexOutOfBoundsException ArrayStoreException
    AssertionError AutoCloseable BootstrapMethodError Class ClassCastException ClassLoader ClassNotFoundException
    ClassValue CloneNotSupportedException Cloneable Comparable Deprecated Enum Error Exception
    ExceptionInInitializerError FunctionalInterface IllegalAccessException IllegalArgumentException
    IllegalCallerException IllegalMonitorStateException IllegalStateException IllegalThreadStateException
    IncompatibleClassChangeError IndexOutOfBoundsException InheritableThreadLocal InstantiationException
    InternalError InterruptedException LinkageError Math Module ModuleLayer NegativeArraySizeException
    NoClassDefFoundError NoSuchFieldError NoSuchFieldException NoSuchMethodError NoSuchMethodException
    NullPointerException Number NumberFormatException Object OutOfMemoryError Override Package Process
    ProcessBuilder ProcessHandle Readable Record ReflectiveOperationException Runnable Runtime RuntimeException
    RuntimePermission SafeVarargs SecurityException SecurityManager StackOverflowError StackTraceElement StackWalker
    StrictMath StringIndexOutOfBoundsException SuppressWarnings System Thread ThreadDeath ThreadGroup ThreadLocal
    Throwable TypeNotPresentException UnsatisfiedLinkError UnsupportedClassVersionError
    UnsupportedOperationException VerifyError VirtualMachineError
    Annotation ElementType Retention RetentionPolicy Target CallSite MethodHandle MethodHandles MethodType VarHandle
    Cleaner PhantomReference Reference ReferenceQueue SoftReference WeakReference
    AccessibleObject AnnotatedElement Array Constructor Executable Field GenericArrayType GenericDeclaration
    InvocationHandler InvocationTargetException Member Method Modifier Parameter ParameterizedType Proxy
    RecordComponent Type TypeVariable UndeclaredThrowableException WildcardType
    BufferedInputStream BufferedOutputStream BufferedReader BufferedWriter ByteArrayInputStream
    ByteArrayOutputStream CharArrayReader CharArrayWriter CharConversionException Closeable Console DataInput
    DataInputStream DataOutput DataOutputStream EOFException Externalizable File FileDescriptor FileFilter
    FileInputStream FileNotFoundException FileOutputStream FilePermission FileReader FileWriter FilenameFilter
    FilterInputStream FilterOutputStream FilterReader FilterWriter Flushable IOError IOException InputStream
    InputStreamReader InterruptedIOException InvalidClassException InvalidObjectException LineNumberReader
    NotSerializableException ObjectInput ObjectInputFilter ObjectInputStream ObjectOutput ObjectOutputStream
    ObjectStreamClass ObjectStreamException OutputStream OutputStreamWriter PipedInputStream PipedOutputStream
    PipedReader PipedWriter PrintStream PrintWriter PushbackInputStream PushbackReader RandomAccessFile Reader
    SequenceInputStream Serializable StreamTokenizer StringReader StringWriter UTFDataFormatException
    UncheckedIOException UnsupportedEncodingException Writer
    BigDecimal BigInteger MathContext RoundingMode
    Authenticator BindException ConnectException CookieHandler CookieManager CookieStore DatagramPacket
    DatagramSocket HttpCookie HttpURLConnection Inet4Address Inet6Address InetAddress InetSocketAddress JarURLConnection
    MalformedURLException MulticastSocket NetworkInterface NoRouteToHostException PasswordAuthentication
    PortUnreachableException ProtocolException ServerSocket Socket SocketAddress SocketException SocketOption
    SocketPermission SocketTimeoutException StandardSocketOptions URI URISyntaxException URL URLClassLoader
    URLConnection URLDecoder URLEncoder URLStreamHandler URLStreamHandlerFactory UnknownHostException
    HttpClient HttpRequest HttpResponse WebSocket
    Buffer BufferOverflowException BufferUnderflowException ByteBuffer ByteOrder CharBuffer DoubleBuffer FloatBuffer
    IntBuffer LongBuffer MappedByteBuffer ReadOnlyBufferException ShortBuffer AsynchronousChannelGroup
    AsynchronousFileChannel AsynchronousServerSocketChannel AsynchronousSocketChannel ByteChannel
    CancelledKeyException Channel Channels ClosedChannelException CompletionHandler DatagramChannel FileChannel
    FileLock GatheringByteChannel NetworkChannel Pipe ReadableByteChannel ScatteringByteChannel SeekableByteChannel
    SelectableChannel SelectionKey Selector ServerSocketChannel SocketChannel WritableByteChannel
    CharacterCodingException
    Charset CharsetDecoder CharsetEncoder CoderResult CodingErrorAction MalformedInputException StandardCharsets
    UnsupportedCharsetException CopyOption DirectoryStream FileAlreadyExistsException FileStore FileSystem
    FileSystemException FileSystems FileVisitResult FileVisitor Files InvalidPathException LinkOption
    NoSuchFileException OpenOption Path PathMatcher Paths SimpleFileVisitor StandardCopyOption StandardOpenOption
    WatchEvent WatchKey WatchService BasicFileAttributes FileAttribute FileTime PosixFilePermission
    AccessControlContext AccessControlException AccessController AlgorithmParameters CodeSource DigestInputStream
    DigestOutputStream GeneralSecurityException InvalidAlgorithmParameterException InvalidKeyException Key
    KeyFactory KeyManagementException KeyPair KeyPairGenerator KeyStore KeyStoreException MessageDigest
    NoSuchAlgorithmException NoSuchProviderException Permission PermissionCollection Permissions Policy Principal
    PrivateKey PrivilegedAction PrivilegedActionException PrivilegedExceptionAction ProtectionDomain Provider
    PublicKey SecureClassLoader SecureRandom Security Signature SignatureException UnrecoverableKeyException CRL
    CertPath Certificate CertificateEncodingException CertificateException CertificateFactory X509CRL
    X509Certificate
    BatchUpdateException Blob CallableStatement Clob Connection DatabaseMetaData Driver DriverManager
    DriverPropertyInfo ParameterMetaData PreparedStatement ResultSet ResultSetMetaData RowId SQLException
    SQLFeatureNotSupportedException SQLWarning SQLXML Savepoint Statement Struct Time Timestamp Types
    DataSource
    AttributedCharacterIterator AttributedString BreakIterator CharacterIterator ChoiceFormat CollationKey Collator
    DateFormat DateFormatSymbols DecimalFormat DecimalFormatSymbols FieldPosition Format MessageFormat Normalizer
    NumberFormat ParseException ParsePosition SimpleDateFormat StringCharacterIterator
    Clock DateTimeException DayOfWeek Duration Month Period ZoneId ZoneOffset DateTimeFormatter
    DateTimeFormatterBuilder DateTimeParseException FormatStyle ChronoField ChronoUnit Temporal TemporalAccessor
    TemporalAdjuster TemporalAdjusters TemporalAmount TemporalUnit
    Arrays Base64 BitSet Collections Comparator ConcurrentModificationException Currency DoubleSummaryStatistics
    EmptyStackException Entry EventListener EventListenerProxy EventObject Formattable Formatter HexFormat
    IllegalFormatException InputMismatchException IntSummaryStatistics InvalidPropertiesFormatException Locale
    LongSummaryStatistics MissingFormatArgumentException MissingResourceException NoSuchElementException Objects
    Observable Observer Optional OptionalDouble OptionalInt OptionalLong PropertyPermission
    PropertyResourceBundle Random RandomAccess ResourceBundle Scanner ServiceConfigurationError ServiceLoader
    SimpleTimeZone SplittableRandom StringJoiner StringTokenizer TimeZone Timer TimerTask UUID
    AbstractExecutorService BrokenBarrierException Callable CancellationException CompletableFuture
    CompletionException CompletionService CompletionStage CountDownLatch CyclicBarrier Delayed Exchanger
    ExecutionException Executor ExecutorCompletionService ExecutorService Executors Flow ForkJoinPool ForkJoinTask
    Future FutureTask Phaser RecursiveAction RecursiveTask RejectedExecutionException RejectedExecutionHandler
    RunnableFuture ScheduledExecutorService ScheduledFuture ScheduledThreadPoolExecutor Semaphore
    ThreadFactory ThreadLocalRandom ThreadPoolExecutor TimeUnit TimeoutException AtomicBoolean AtomicInteger
    AtomicIntegerArray AtomicLong AtomicLongArray AtomicMarkableReference AtomicReference AtomicReferenceArray
    AtomicReferenceFieldUpdater AtomicStampedReference DoubleAdder LongAccumulator LongAdder AbstractQueuedSynchronizer
    Condition Lock LockSupport ReadWriteLock ReentrantLock ReentrantReadWriteLock StampedLock
    BiConsumer BiFunction BiPredicate BinaryOperator BooleanSupplier Consumer DoubleFunction DoubleSupplier
    DoubleUnaryOperator Function IntBinaryOperator IntConsumer IntFunction IntPredicate IntSupplier IntUnaryOperator
    LongFunction LongSupplier LongUnaryOperator ObjIntConsumer Predicate Supplier ToDoubleFunction ToIntBiFunction
    ToIntFunction ToLongFunction UnaryOperator
    BaseStream Collector Collectors DoubleStream IntStream LongStream Stream StreamSupport MatchResult Matcher
    Pattern PatternSyntaxException
    Attributes JarEntry JarException JarFile JarInputStream JarOutputStream Manifest Adler32 CRC32 CheckedInputStream
    Checksum DataFormatException Deflater DeflaterOutputStream GZIPInputStream GZIPOutputStream Inflater
    InflaterInputStream ZipEntry ZipException ZipFile ZipInputStream ZipOutputStream
    ConsoleHandler FileHandler Filter Handler Level LogManager LogRecord Logger SimpleFormatter BackingStoreException
    Preferences
"""

_TYPES = {name: kind for kind, names in _BY_TYPE.items() for name in names.split()}
_TYPES.update(dict.fromkeys(_OTHER_JDK.split(), NodeType.OTHER_JDK))
_NOT_NAMES = {"annotation", "marker_annotation", "block_comment", "line_comment", "dimensions", "type_arguments"}


def declared_type(node: "Node") -> tuple[NodeType, bool]:
    """The node type that a type's tree names, and whether it is an array.

    ``java.util.List<String>`` counts by its last name, ``int[]`` as int, ``A | B`` as A; ``var`` is unknown.
    """
    is_array = node.type == "array_type"
    while node.named_child_count:
        parts = [part for part in node.named_children if part.type not in _NOT_NAMES]
        if not parts:
            break
        last = node.type == "scoped_type_identifier"
        node = parts[-1] if last else parts[0]
    name = (node.text or b"").decode(errors="replace")
    return _TYPES.get(name, NodeType.USER_DEFINED), is_array


def has_dimensions(node: "Node") -> bool:
    """Whether a declared name is followed by ``[]``."""
    return node.child_by_field_name("dimensions") is not None
