import ArgumentParser
import HTTPTransport

/// The way to RevenueCat's REST API, for `countersign import --from-revenuecat`.
struct RevenueCatOptions: ParsableArguments {
  static let keyVariable = "REVENUECAT_KEY"

  @Option(
    name: .customLong("from-revenuecat"),
    help: ArgumentHelp("Write this project's customers to FILE first, by RevenueCat's REST API.", valueName: "project"))
  var project: String?

  @Option(name: .long, help: "A file with RevenueCat's secret key of version 2; REVENUECAT_KEY has it otherwise.")
  var revenuecatKeyFile: String?

  @Option(name: .long, help: "Requests a minute, 1 to 6000; RevenueCat's limit is 480.")
  var revenuecatRate = 400

  @Option(name: .long, help: ArgumentHelp("The address of the API.", visibility: .hidden))
  var revenuecatURL = RevenueCatAPI.address

  func validate() throws {
    guard (1...6_000).contains(revenuecatRate) else {
      throw ValidationError("--revenuecat-rate has to be from 1 to 6000.")
    }
  }

  /// The API and its transport, which has to be shut down.
  func api(environment: [String: String]) throws -> (RevenueCatAPI, CurlTransport) {
    let origin: String
    let key: String
    do throws(CommandUsage) {
      origin = try ServiceOptions.origin(revenuecatURL, option: "--revenuecat-url")
      key = try ServiceOptions.key(
        file: revenuecatKeyFile, environment: environment, variable: Self.keyVariable, option: "--revenuecat-key-file")
    } catch { throw CommandOutput.failure(error.description, .usage) }
    let transport = try ServiceOptions.transport()
    return (RevenueCatAPI(transport: transport, url: origin, key: key, rate: revenuecatRate), transport)
  }
}
