// swift-tools-version: 6.2
import PackageDescription

// What is measured is compiled here once more, from the same files: the folders of the modules are links, so that their
// `package` declarations are within reach without being anybody else's.

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
]

let package = Package(
  name: "countersign-benchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1", traits: []),
    .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
    .package(url: "https://github.com/apple/swift-collections", exact: "1.6.0"),
    .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-http2", exact: "1.46.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
  ],
  targets: [
    .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(name: "COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CJansson", pkgConfig: "jansson", providers: [.apt(["libjansson-dev"])]),
    .systemLibrary(name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .target(name: "CGatheringVFS", dependencies: ["CSQLite"]),
    .target(name: "CountersignAPI", swiftSettings: [.swiftLanguageMode(.v6)]),
    .target(name: "Resilience", swiftSettings: settings),
    .target(name: "JSON", dependencies: ["CJansson", "Resilience"], swiftSettings: settings),
    .target(name: "Cryptography", dependencies: ["COpenSSL"], swiftSettings: settings),
    .target(name: "Files", swiftSettings: settings),
    .target(
      name: "HTTPTransport",
      dependencies: [
        "CCurl", "Resilience",
        .product(name: "DequeModule", package: "swift-collections"),
        .product(name: "HeapModule", package: "swift-collections"),
      ],
      swiftSettings: settings),
    .target(name: "Entitlements", swiftSettings: settings),
    .target(name: "Access", dependencies: ["Entitlements", "Files"], swiftSettings: settings),
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
    .executableTarget(
      name: "bench",
      dependencies: [
        "AppStore", "COpenSSL", "CountersignAPI", "Entitlements", "HTTPTransport", "JSON", "Ledger",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ],
      path: "Sources/Bench",
      swiftSettings: settings),
  ]
)
