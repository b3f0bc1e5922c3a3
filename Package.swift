// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  // Never in what is deployed: mistakes that the fault suite switches on, to prove that it would notice them.
  .define("PLANTED_DEFECTS", .when(configuration: .debug)),
]

let package = Package(
  name: "countersign",
  platforms: [.macOS(.v15)],
  products: [
    .executable(name: "countersign", targets: ["Countersign"]),
    .executable(name: "app-store-simulator", targets: ["AppStoreSimulator"]),
  ],
  dependencies: [
    // The library for apps; the service shares its wire types.
    .package(path: "CountersignClient"),
    .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
    .package(url: "https://github.com/apple/swift-collections", exact: "1.6.0"),
    .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", exact: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-extras", exact: "1.35.2"),
    .package(url: "https://github.com/apple/swift-nio-http2", exact: "1.46.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
    .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
    .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
    // The tests' own cryptography, by which they judge ours: no program links it.
    .package(url: "https://github.com/apple/swift-asn1", exact: "1.7.4"),
    .package(url: "https://github.com/apple/swift-certificates", exact: "1.21.1"),
    .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
    // And their own way to run programs.
    .package(url: "https://github.com/apple/swift-system", exact: "1.8.1"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", exact: "1.0.2"),
  ],
  targets: [
    // The C libraries: a module map and a shim header each, no Swift.
    .systemLibrary(
      name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(
      name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(
      name: "CJansson", pkgConfig: "jansson", providers: [.apt(["libjansson-dev"])]),
    .systemLibrary(
      name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),

    // Fewer system calls for SQLite's log.
    .target(
      name: "CGatheringVFS",
      dependencies: [.product(name: "GRDBSQLite", package: "GRDB.swift")]),
    .target(
      name: "Resilience",
      swiftSettings: settings),
    .target(
      name: "JSON",
      dependencies: ["CJansson", "Resilience"],
      swiftSettings: settings),
    // Digests, message codes and public keys: OpenSSL, for more than one module.
    .target(
      name: "Cryptography",
      dependencies: ["COpenSSL"],
      swiftSettings: settings),
    // Files that an operator names, read within bounds.
    .target(
      name: "Files",
      swiftSettings: settings),
    .target(
      name: "HTTPTransport",
      dependencies: [
        "CCurl", "Resilience",
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "HeapModule", package: "swift-collections"),
      ],
      swiftSettings: settings),
    .target(
      name: "Entitlements",
      swiftSettings: settings),
    // The rules on top of a verdict: features, usage, plans, experiments.
    .target(
      name: "Access",
      dependencies: ["Entitlements"],
      swiftSettings: settings),
    .target(
      name: "AppStore",
      dependencies: [
        "COpenSSL", "Cryptography", "Entitlements", "Files", "HTTPTransport", "JSON", "Resilience",
      ],
      swiftSettings: settings),
    .target(
      name: "Ledger",
      dependencies: [
        "Access", "CGatheringVFS", "CPostgreSQL", "Cryptography", "Entitlements", "JSON", "Resilience",
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "GRDBSQLite", package: "GRDB.swift"),
      ],
      swiftSettings: settings),
    .target(
      name: "Profiles",
      dependencies: ["Entitlements", "HTTPTransport", "JSON", "Resilience"],
      swiftSettings: settings),
    // Receivers of events: signatures, the schedule, and sending.
    .target(
      name: "Webhooks",
      dependencies: ["Cryptography", "HTTPTransport"],
      swiftSettings: settings),
    // Prometheus' text format behind swift-metrics.
    .target(
      name: "Prometheus",
      dependencies: [.product(name: "CoreMetrics", package: "swift-metrics")],
      swiftSettings: settings),
    .target(
      name: "Tokens",
      dependencies: [
        "Cryptography", "Entitlements", "HTTPTransport", "JSON", "Resilience",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    // The use cases and the jobs: no HTTP server, no database, no libcurl.
    .target(
      name: "Validation",
      dependencies: [
        "Access", "AppStore", "Cryptography", "Entitlements", "JSON", "Ledger", "Profiles", "Resilience", "Webhooks",
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    // The files in the binary.
    .target(name: "CResources"),
    .target(
      name: "CountersignServer",
      dependencies: [
        "Access", "AppStore", "CResources", "Cryptography", "Entitlements", "Files", "HTTPTransport", "JSON", "Ledger",
        "Profiles", "Prometheus", "Resilience", "Tokens", "Validation", "Webhooks",
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "CountersignAPI", package: "CountersignClient"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdCore", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOFoundationEssentialsCompat", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
      ],
      // CResources has them.
      exclude: ["Console/Page", "Routes/openapi.yaml"],
      swiftSettings: settings),
    .executableTarget(
      name: "Countersign",
      dependencies: [
        "Access", "AppStore", "CountersignServer", "Cryptography", "Entitlements", "Files", "HTTPTransport", "JSON",
        "Ledger", "Profiles", "Prometheus", "Resilience", "Tokens", "Validation", "Webhooks",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "CoreMetrics", package: "swift-metrics"),
        .product(name: "CountersignAPI", package: "CountersignClient"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdCore", package: "hummingbird"),
        .product(name: "HummingbirdTLS", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle"),
        .product(name: "Yams", package: "Yams"),
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "AppStoreSimulator",
      dependencies: [
        "COpenSSL",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "HummingbirdCore", package: "hummingbird"),
        .product(name: "HummingbirdTLS", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
        .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      swiftSettings: settings),

    // Servers that misbehave on purpose, the certificates they show, and programs that are run as processes of their own.
    .target(
      name: "TestSupport",
      dependencies: [
        "CPostgreSQL",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "Subprocess", package: "swift-subprocess"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      path: "Tests/TestSupport",
      swiftSettings: settings),
    .testTarget(
      name: "EntitlementsTests",
      dependencies: ["Entitlements"],
      swiftSettings: settings),
    .testTarget(
      name: "AccessTests",
      dependencies: ["Access", "Entitlements"],
      swiftSettings: settings),
    .testTarget(
      name: "ResilienceTests",
      dependencies: ["JSON", "Resilience", "TestSupport"],
      swiftSettings: settings),
    .testTarget(
      name: "JSONTests",
      dependencies: ["JSON", "Resilience"],
      swiftSettings: settings),
    .testTarget(
      name: "CryptographyTests",
      dependencies: [
        "Cryptography",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "_CryptoExtras", package: "swift-crypto"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "HTTPTransportTests",
      dependencies: [
        "HTTPTransport", "JSON", "Resilience", "TestSupport",
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      swiftSettings: settings),
    // What every profile store behind the adapter has to do, whoever plays it.
    .target(
      name: "ProfileStoreContract",
      dependencies: ["Entitlements", "HTTPTransport", "Profiles"],
      path: "Tests/ProfileStoreContract",
      swiftSettings: settings),
    .testTarget(
      name: "ProfilesTests",
      dependencies: ["Entitlements", "HTTPTransport", "JSON", "ProfileStoreContract", "Profiles", "Resilience"],
      exclude: ["Recorded"],
      swiftSettings: settings),
    // The SQL in samples, the locks it makes, and the adapter, on a real PostgreSQL.
    .testTarget(
      name: "PostgreSQLTests",
      dependencies: [
        "CPostgreSQL", "Entitlements", "HTTPTransport", "ProfileStoreContract", "Profiles", "TestSupport",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ],
      exclude: ["Recorded", "SQL"],
      swiftSettings: settings),
    .testTarget(
      name: "AppStoreTests",
      dependencies: [
        "AppStore", "COpenSSL", "Cryptography", "Entitlements", "Files", "HTTPTransport", "JSON", "Resilience",
        "TestSupport",
      ],
      swiftSettings: settings),
    // Records entries and tells which were acknowledged, so that tests can kill it and count its system calls.
    .executableTarget(
      name: "LedgerProbe",
      dependencies: ["Access", "Entitlements", "Ledger"],
      path: "Tests/LedgerProbe",
      swiftSettings: settings),
    .testTarget(
      name: "LedgerTests",
      dependencies: [
        "Access", "CGatheringVFS", "Entitlements", "Ledger", "LedgerProbe", "TestSupport",
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "GRDBSQLite", package: "GRDB.swift"),
      ],
      exclude: ["Former"],
      swiftSettings: settings),
    .testTarget(
      name: "AppStoreSimulatorTests",
      dependencies: [
        "AppStoreSimulator", "TestSupport",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SwiftASN1", package: "swift-asn1"),
        .product(name: "X509", package: "swift-certificates"),
      ],
      swiftSettings: settings),
    // The use case without a server: a scripted transport and a real ledger.
    .testTarget(
      name: "ValidationTests",
      dependencies: [
        "Access", "AppStore", "AppStoreSimulator", "Entitlements", "HTTPTransport", "Ledger", "Profiles", "Resilience",
        "Validation", "Webhooks",
        .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "WebhooksTests",
      dependencies: ["HTTPTransport", "Webhooks"],
      swiftSettings: settings),
    .testTarget(
      name: "PrometheusTests",
      dependencies: ["Prometheus", "TestSupport", .product(name: "CoreMetrics", package: "swift-metrics")],
      swiftSettings: settings),
    .testTarget(
      name: "CountersignTests",
      dependencies: [
        "Access", "AppStore", "AppStoreSimulator", "Countersign", "CountersignServer", "Cryptography", "Entitlements",
        "Files", "HTTPTransport", "JSON", "Ledger", "Profiles", "Prometheus", "Resilience", "TestSupport", "Tokens",
        "Validation", "Webhooks",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "CountersignAPI", package: "CountersignClient"),
        .product(name: "CountersignClient", package: "CountersignClient"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOEmbedded", package: "swift-nio"),
        .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "NIOTLS", package: "swift-nio"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle"),
        .product(name: "Yams", package: "Yams"),
        .product(name: "_CryptoExtras", package: "swift-crypto"),
      ],
      swiftSettings: settings),
  ]
)
