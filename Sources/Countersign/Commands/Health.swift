import ArgumentParser
import FoundationEssentials
import HTTPTransport

/// `countersign health`
struct Health: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Ask the service that runs on this machine for /livez, for a container's health check.",
    discussion: """
      The address is that of server.admin, else of server, by the service's file and variables. With TLS and without \
      server.admin it is enough that the service shows its certificate, which names another address.

      EXIT CODES
          0  it answers
          1  it does not
         78  the configuration is wrong

      EXAMPLES
        countersign health --config countersign.yaml
      """)

  @OptionGroup var options: ConfigurationOptions

  /// Shorter than the three seconds that the image's health check may take.
  static let limit: Duration = .milliseconds(2_500)

  func run() async throws {
    let configuration = try options.load(requiresCredential: false)
    guard let origin = configuration.server.localURL else {
      throw CommandOutput.failure("server.port is 0: nobody knows the port; set it, or server.admin.port.")
    }
    if let trouble = await Self.trouble(at: origin) {
      throw CommandOutput.failure("\(origin)/livez: \(trouble)")
    }
  }

  /// - Returns: `nil` where a service is alive.
  static func trouble(at origin: String) async -> String? {
    do {
      var settings = CurlTransport.Configuration()
      settings.allowedSchemes = [.http, .https]
      let transport = try CurlTransport(configuration: settings)
      defer { transport.shutdown() }
      let request = TransportRequest(
        method: .get, url: "\(origin)/livez", headers: [], body: [], responseBodyLimit: 1_024)
      let status = try await transport.send(request, deadline: .now.advanced(by: limit)).status
      return status == 200 ? nil : "HTTP \(status)"
    } catch TransportError.tls(let reason) where reason.contains("certificate") { return nil } catch {
      return "no answer (\(error))"
    }
  }
}
