// swift-tools-version: 6.0
import PackageDescription

// A package of its own: the service's needs macOS 15, and would make an app resolve the service's dependencies. This one
// has none.
let settings: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
  name: "CountersignClient",
  platforms: [.iOS(.v15), .macOS(.v12), .tvOS(.v15), .watchOS(.v8)],
  products: [
    .library(name: "CountersignClient", targets: ["CountersignClient"]),
    .library(name: "CountersignAPI", targets: ["CountersignAPI"]),
  ],
  targets: [
    // The wire types of the HTTP API, which the service and its clients share.
    .target(
      name: "CountersignAPI",
      swiftSettings: settings),
    // Purchases, restore, and what a user may do, for apps.
    .target(
      name: "CountersignClient",
      dependencies: ["CountersignAPI"],
      swiftSettings: settings),
    .testTarget(
      name: "CountersignAPITests",
      dependencies: ["CountersignAPI"],
      swiftSettings: settings),
    .testTarget(
      name: "CountersignClientTests",
      dependencies: ["CountersignAPI", "CountersignClient"],
      swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
