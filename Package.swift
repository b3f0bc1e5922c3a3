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

// What apps build as well.
let clientSettings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

extension Target.Dependency {
  /// A product that an app does not resolve.
  static func service(_ product: String, of package: String) -> Self {
    .product(name: product, package: package, condition: .when(traits: ["Service"]))
  }
}

let package = Package(
  name: "countersign",
  // Those of the library for apps. The service is for Linux.
  platforms: [.iOS(.v15), .macOS(.v12), .tvOS(.v15), .watchOS(.v8), .visionOS(.v1)],
  products: [
    .library(name: "CountersignClient", targets: ["CountersignClient"]),
    .library(name: "CountersignAPI", targets: ["CountersignAPI"]),
    .executable(name: "countersign", targets: ["Countersign"]),
    .executable(name: "app-store-simulator", targets: ["AppStoreSimulator"]),
  ],
  // An app that names the package with `traits: []` resolves none of the dependencies.
  traits: [
    .default(enabledTraits: ["Service"]),
    .trait(name: "Service", description: "The service, the simulator and their tests"),
  ],
  dependencies: [
    // Without its traits: one links full Foundation, and ICU with it, and the other reads a configuration that is not ours.
    .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1", traits: []),
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
    // The tests' own cryptography, by which they judge ours: no program links it.
    .package(url: "https://github.com/apple/swift-asn1", exact: "1.7.4"),
    .package(url: "https://github.com/apple/swift-certificates", exact: "1.21.1"),
    .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
    // And their own way to run programs.
    .package(url: "https://github.com/apple/swift-system", exact: "1.8.1"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", exact: "1.0.2"),
  ],
  targets: [
    // The wire types of the HTTP API, which the service and its clients share.
    .target(name: "CountersignAPI", swiftSettings: clientSettings),
    // Purchases, restore, and what a user may do, for apps.
    .target(name: "CountersignClient", dependencies: ["CountersignAPI"], swiftSettings: clientSettings),

    // The C libraries: a module map and a shim header each, no Swift.
    .systemLibrary(
      name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(
      name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(
      name: "CJansson", pkgConfig: "jansson", providers: [.apt(["libjansson-dev"])]),
    .systemLibrary(
      name: "CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
    .systemLibrary(
      name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
    .systemLibrary(
      name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),

    // Fewer system calls for SQLite's log.
    .target(name: "CGatheringVFS", dependencies: ["CSQLite"]),
    .target(
      name: "Resilience",
      swiftSettings: settings),
    .target(
      name: "JSON",
      dependencies: ["CJansson", "Resilience"],
      swiftSettings: settings),
    // A text in YAML as a tree, for the configuration.
    .target(
      name: "YAML",
      dependencies: ["CYAML"],
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
        .service("DequeModule", of: "swift-collections"),
        .service("HeapModule", of: "swift-collections"),
      ],
      swiftSettings: settings),
    .target(
      name: "Entitlements",
      swiftSettings: settings),
    // The rules on top of a verdict: features, usage, plans, the variants of experiments.
    .target(
      name: "Access",
      dependencies: ["Entitlements", "Files"],
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
        "Access", "CGatheringVFS", "CPostgreSQL", "CSQLite", "Cryptography", "Entitlements", "JSON", "Resilience",
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
      dependencies: [.service("CoreMetrics", of: "swift-metrics")],
      swiftSettings: settings),
    .target(
      name: "Tokens",
      dependencies: [
        "Cryptography", "Entitlements", "HTTPTransport", "JSON", "Resilience",
        .service("Logging", of: "swift-log"),
        .service("ServiceLifecycle", of: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    // How many pay, and how much: the rules, the count behind the ledger, and its reports.
    .target(
      name: "Figures",
      dependencies: [
        "Access", "Entitlements", "JSON", "Ledger", "Resilience",
        .service("Logging", of: "swift-log"),
        .service("ServiceLifecycle", of: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    // The use cases and the jobs: no HTTP server, no database, no libcurl.
    .target(
      name: "Validation",
      dependencies: [
        "Access", "AppStore", "Cryptography", "Entitlements", "JSON", "Ledger", "Profiles", "Resilience", "Webhooks",
        .service("DequeModule", of: "swift-collections"),
        .service("Logging", of: "swift-log"),
        .service("ServiceLifecycle", of: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    // The files in the binary.
    .target(name: "CResources"),
    .target(
      name: "CountersignServer",
      dependencies: [
        "Access", "AppStore", "CountersignAPI", "CResources", "Cryptography", "Entitlements", "Figures", "Files",
        "HTTPTransport", "JSON", "Ledger", "Profiles", "Prometheus", "Resilience", "Tokens", "Validation", "Webhooks",
        .service("CoreMetrics", of: "swift-metrics"),
        .service("HTTPTypes", of: "swift-http-types"),
        .service("Hummingbird", of: "hummingbird"),
        .service("HummingbirdCore", of: "hummingbird"),
        .service("Logging", of: "swift-log"),
        .service("NIOCore", of: "swift-nio"),
        .service("NIOFoundationEssentialsCompat", of: "swift-nio"),
        .service("NIOHTTP1", of: "swift-nio"),
        .service("NIOHTTPTypesHTTP1", of: "swift-nio-extras"),
        .service("NIOPosix", of: "swift-nio"),
        .service("NIOSSL", of: "swift-nio-ssl"),
        .service("ServiceLifecycle", of: "swift-service-lifecycle"),
      ],
      // CResources has them.
      exclude: ["Console/Page", "Routes/openapi.yaml"],
      swiftSettings: settings),
    .executableTarget(
      name: "Countersign",
      dependencies: [
        "Access", "AppStore", "CountersignAPI", "CountersignServer", "Cryptography", "Entitlements", "Figures", "Files",
        "HTTPTransport", "JSON", "Ledger", "Profiles", "Prometheus", "Resilience", "Tokens", "Validation", "Webhooks",
        "YAML",
        .service("ArgumentParser", of: "swift-argument-parser"),
        .service("CoreMetrics", of: "swift-metrics"),
        .service("Logging", of: "swift-log"),
        .service("NIOCore", of: "swift-nio"),
        .service("ServiceLifecycle", of: "swift-service-lifecycle"),
        .service("UnixSignals", of: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "AppStoreSimulator",
      dependencies: [
        "COpenSSL",
        .service("ArgumentParser", of: "swift-argument-parser"),
        .service("HTTPTypes", of: "swift-http-types"),
        .service("Hummingbird", of: "hummingbird"),
        .service("HummingbirdCore", of: "hummingbird"),
        .service("HummingbirdTLS", of: "hummingbird"),
        .service("Logging", of: "swift-log"),
        .service("NIOCore", of: "swift-nio"),
        .service("NIOHTTP1", of: "swift-nio"),
        .service("NIOHTTPTypes", of: "swift-nio-extras"),
        .service("NIOHTTPTypesHTTP1", of: "swift-nio-extras"),
        .service("NIOPosix", of: "swift-nio"),
        .service("NIOSSL", of: "swift-nio-ssl"),
        .service("ServiceLifecycle", of: "swift-service-lifecycle"),
      ],
      swiftSettings: settings),

    // Random numbers that a seed brings back.
    .target(name: "SeededRandom", path: "Tests/SeededRandom", swiftSettings: settings),
    // Servers that misbehave on purpose, the certificates they show, and programs that are run as processes of their own.
    .target(
      name: "TestSupport",
      dependencies: [
        "CPostgreSQL", "CSQLite", "HTTPTransport",
        .service("Crypto", of: "swift-crypto"),
        .service("_CryptoExtras", of: "swift-crypto"),
        .service("NIOCore", of: "swift-nio"),
        .service("NIOPosix", of: "swift-nio"),
        .service("NIOSSL", of: "swift-nio-ssl"),
        .service("Subprocess", of: "swift-subprocess"),
        .service("SwiftASN1", of: "swift-asn1"),
        .service("SystemPackage", of: "swift-system"),
        .service("X509", of: "swift-certificates"),
      ],
      path: "Tests/TestSupport",
      swiftSettings: settings),
    .testTarget(name: "CountersignAPITests", dependencies: ["CountersignAPI"], swiftSettings: clientSettings),
    .testTarget(
      name: "CountersignClientTests", dependencies: ["CountersignAPI", "CountersignClient"],
      swiftSettings: clientSettings),
    .testTarget(
      name: "EntitlementsTests",
      dependencies: ["Entitlements", "SeededRandom", "TestSupport"],
      swiftSettings: settings),
    .testTarget(
      name: "AccessTests",
      dependencies: ["Access", "Entitlements", "SeededRandom"],
      swiftSettings: settings),
    .testTarget(
      name: "ResilienceTests",
      dependencies: ["JSON", "Resilience", "SeededRandom", "TestSupport"],
      swiftSettings: settings),
    .testTarget(
      name: "JSONTests",
      dependencies: ["JSON", "Resilience"],
      swiftSettings: settings),
    .testTarget(
      name: "YAMLTests",
      dependencies: ["YAML"],
      swiftSettings: settings),
    .testTarget(
      name: "CryptographyTests",
      dependencies: [
        "Cryptography",
        .service("Crypto", of: "swift-crypto"),
        .service("_CryptoExtras", of: "swift-crypto"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "HTTPTransportTests",
      dependencies: [
        "HTTPTransport", "JSON", "Resilience", "TestSupport",
        .service("NIOCore", of: "swift-nio"),
        .service("NIOHTTP1", of: "swift-nio"),
        .service("NIOHTTP2", of: "swift-nio-http2"),
        .service("NIOPosix", of: "swift-nio"),
        .service("NIOSSL", of: "swift-nio-ssl"),
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
      dependencies: [
        "Entitlements", "HTTPTransport", "JSON", "ProfileStoreContract", "Profiles", "Resilience", "SeededRandom",
        "TestSupport",
      ],
      exclude: ["Recorded"],
      swiftSettings: settings),
    // The SQL in samples, the locks it makes, and the adapter, on a real PostgreSQL.
    .testTarget(
      name: "PostgreSQLTests",
      dependencies: [
        "CPostgreSQL", "Entitlements", "HTTPTransport", "ProfileStoreContract", "Profiles", "TestSupport",
        .service("Crypto", of: "swift-crypto"),
        .service("NIOCore", of: "swift-nio"),
        .service("NIOHTTP1", of: "swift-nio"),
        .service("NIOPosix", of: "swift-nio"),
      ],
      exclude: ["Recorded", "SQL"],
      swiftSettings: settings),
    .testTarget(
      name: "AppStoreTests",
      dependencies: [
        "AppStore", "COpenSSL", "Cryptography", "Entitlements", "Files", "HTTPTransport", "JSON", "Resilience",
        "SeededRandom",
        "TestSupport",
        .service("Crypto", of: "swift-crypto"),
      ],
      swiftSettings: settings),
    // Records entries and tells which were acknowledged, so that tests can kill it and count its system calls.
    .executableTarget(
      name: "LedgerProbe",
      dependencies: ["Access", "Entitlements", "Ledger"],
      path: "Tests/LedgerProbe",
      swiftSettings: settings),
    // Ledgers of a test's own, and the users and purchases that fill them.
    .target(
      name: "LedgerFixtures",
      dependencies: ["Access", "Entitlements", "Ledger", "TestSupport"],
      path: "Tests/LedgerFixtures",
      swiftSettings: settings),
    .testTarget(
      name: "LedgerTests",
      dependencies: [
        "Access", "CGatheringVFS", "CSQLite", "Entitlements", "Figures", "Ledger", "LedgerFixtures", "LedgerProbe",
        "SeededRandom", "TestSupport",
      ],
      swiftSettings: settings),
    .testTarget(
      name: "FiguresTests",
      dependencies: ["Access", "Entitlements", "Figures", "Ledger", "LedgerFixtures", "SeededRandom"],
      swiftSettings: settings),
    .testTarget(
      name: "AppStoreSimulatorTests",
      dependencies: [
        "AppStoreSimulator", "TestSupport",
        .service("Crypto", of: "swift-crypto"),
        .service("Hummingbird", of: "hummingbird"),
        .service("Logging", of: "swift-log"),
        .service("SwiftASN1", of: "swift-asn1"),
        .service("X509", of: "swift-certificates"),
      ],
      swiftSettings: settings),
    // The use case without a server: a scripted transport and a real ledger.
    .testTarget(
      name: "ValidationTests",
      dependencies: [
        "Access", "AppStore", "AppStoreSimulator", "Entitlements", "HTTPTransport", "Ledger", "LedgerFixtures",
        "Profiles", "Resilience", "TestSupport", "Validation", "Webhooks",
        .service("Crypto", of: "swift-crypto"),
        .service("Logging", of: "swift-log"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "TokensTests",
      dependencies: [
        "Cryptography", "Entitlements", "HTTPTransport", "JSON", "Resilience", "TestSupport", "Tokens",
        .service("Crypto", of: "swift-crypto"),
        .service("_CryptoExtras", of: "swift-crypto"),
        .service("Logging", of: "swift-log"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "WebhooksTests",
      dependencies: ["HTTPTransport", "TestSupport", "Webhooks"],
      swiftSettings: settings),
    .testTarget(
      name: "PrometheusTests",
      dependencies: [
        "Prometheus", "TestSupport", .service("CoreMetrics", of: "swift-metrics"),
      ],
      swiftSettings: settings),
    // The parts of the server that need no service to be tested.
    .testTarget(
      name: "CountersignServerTests",
      dependencies: [
        "Access", "CountersignAPI", "CountersignServer", "Entitlements", "Ledger", "TestSupport", "Validation",
        .service("NIOCore", of: "swift-nio"),
        .service("NIOFoundationEssentialsCompat", of: "swift-nio"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "CountersignTests",
      dependencies: [
        "Access", "AppStore", "AppStoreSimulator", "Countersign", "CountersignAPI", "CountersignClient",
        "CountersignServer", "Cryptography", "Entitlements", "Figures", "Files", "HTTPTransport", "JSON", "Ledger",
        "LedgerFixtures", "Profiles", "Prometheus", "Resilience", "SeededRandom", "TestSupport", "Tokens", "Validation",
        "Webhooks", "YAML",
        .service("ArgumentParser", of: "swift-argument-parser"),
        .service("Crypto", of: "swift-crypto"),
        .service("HTTPTypes", of: "swift-http-types"),
        .service("Logging", of: "swift-log"),
        .service("NIOCore", of: "swift-nio"),
        .service("NIOEmbedded", of: "swift-nio"),
        .service("NIOHTTPTypes", of: "swift-nio-extras"),
        .service("NIOPosix", of: "swift-nio"),
        .service("NIOSSL", of: "swift-nio-ssl"),
        .service("NIOTLS", of: "swift-nio"),
        .service("ServiceLifecycle", of: "swift-service-lifecycle"),
        .service("UnixSignals", of: "swift-service-lifecycle"),
        .service("_CryptoExtras", of: "swift-crypto"),
      ],
      swiftSettings: settings),
  ]
)
