import CountersignServer

/// A key of the configuration, as the line of code that reads it declares it.
///
/// There is no other list of keys: `all` is what an empty reader was asked for. The check of the file and of the
/// environment, the help and the reference page are made from it. To add a key, read it in its section.
struct ConfigurationKey: Sendable {
  /// The places in which a value may be given.
  enum Place: Sendable {
    case anywhere
    /// Anywhere, and in a file of its own, which the key with the suffix `_file` names: a secret.
    case anywhereOrOwnFile
    case configurationFile
  }

  /// The name as nested in the file: `server.port` is `port` under `server`.
  let name: String
  /// The form of its values, for the reference: `0 to 65535`.
  let form: String
  /// The default, for the reference: `` `8080` ``, `none`, `required`.
  let standard: String
  let place: Place
  let summary: String

  /// Every key, in the order of reading, which is the order of the reference.
  static let all: [ConfigurationKey] = {
    var reader = ConfigurationReader(file: ConfigurationFile(), environment: [:], findings: ConfigurationFindings())
    _ = try? ServiceConfiguration(&reader, requiresCredential: false)
    return reader.keys
  }()

  // MARK: - The file

  /// Its names in the file.
  var fileNames: [String] { place == .anywhereOrOwnFile ? [name, name + "_file"] : [name] }

  /// Every name of a value in the file.
  static let allFileNames = all.flatMap(\.fileNames)

  /// Every name that groups others: `server`, `app_store`, `app_store.server_api`, …
  static let groups: [String] = all.reduce(into: []) { groups, key in
    let parts = key.name.split(separator: ".")
    for count in 1..<parts.count {
      let group = parts.prefix(count).joined(separator: ".")
      if !groups.contains(group) { groups.append(group) }
    }
  }

  // MARK: - The environment

  /// The prefix of all our environment variables.
  static let variablePrefix = "COUNTERSIGN_"

  /// The path of the configuration file.
  static let fileVariable = "COUNTERSIGN_CONFIG"

  static func variable(of name: String) -> String { variablePrefix + name.uppercased().replacing(".", with: "_") }

  /// Its environment variables.
  var variables: [String] { place == .configurationFile ? [] : fileNames.map(Self.variable(of:)) }

  /// The URL of the running service and an API key for it. Only commands that call the service read them; the service
  /// accepts them, as both may share an environment.
  static let urlVariable = "COUNTERSIGN_URL"
  static let apiKeyVariable = "COUNTERSIGN_API_KEY"

  /// Every variable that is known.
  private static let allVariables =
    [fileVariable, urlVariable, apiKeyVariable] + defectVariables + all.flatMap(\.variables)

  static func reportUnknownVariables(_ environment: [String: String], _ findings: inout ConfigurationFindings) {
    for (variable, value) in environment.sorted(by: { $0.key < $1.key })
    where variable.hasPrefix(variablePrefix) && !allVariables.contains(variable) {
      if environment["KUBERNETES_SERVICE_HOST"] != nil, isServiceLink(variable, value) { continue }
      if let key = all.first(where: { Self.variable(of: $0.name) == variable }) {
        findings.problem(variable, "\(key.name) can only be given in the configuration file")
      } else {
        // Compared without the common prefix, which would make any two names similar.
        let nearest = Suggestion.nearest(
          to: String(variable.dropFirst(variablePrefix.count)),
          among: allVariables.map { String($0.dropFirst(variablePrefix.count)) })
        findings.problem(
          String(variable.prefix(100)),
          "unknown variable" + (nearest.map { "; did you mean \(variablePrefix)\($0)?" } ?? ""))
      }
    }
  }

  /// Kubernetes adds variables to every container for a Service named `countersign` or `countersign-…`
  /// (`COUNTERSIGN_SERVICE_HOST`, `COUNTERSIGN_PORT=tcp://…`); the operator did not write them.
  ///
  /// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
  private static func isServiceLink(_ name: String, _ value: String) -> Bool {
    let link = /COUNTERSIGN_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?)/
    let numberedPort = /COUNTERSIGN_(?:[A-Z0-9_]+_)?PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?/
    let port = /COUNTERSIGN_(?:[A-Z0-9_]+_)?PORT/
    return name.wholeMatch(of: link) != nil || name.wholeMatch(of: numberedPort) != nil
      || name.wholeMatch(of: port) != nil && value.contains("://")
  }
}

#if PLANTED_DEFECTS
  /// The variables that plant a defect in a debug build.
  private let defectVariables = ["COUNTERSIGN_PLANTED_DEFECT", "COUNTERSIGN_PLANTED_LOG_FAULT"]
#else
  private let defectVariables: [String] = []
#endif
