import ArgumentParser
import CountersignServer
import Glibc
import Profiles

/// The files that `countersign init` writes. It is complete and checked before the first one is written.
struct InitPlan {
  struct NewSecret {
    var path: String
    var secret: String
  }

  let path: String
  let text: String
  let secrets: [NewSecret]
  private let tiers: [String]
  private let directory: String

  /// - Parameters:
  ///   - key: the API key.
  ///   - ask: `nil` where nobody can be asked.
  /// - Throws: a sentence about what is missing or wrong.
  init(
    _ given: InitAnswers, directory: String, config: String?, key: String, ask: TerminalQuestion.Asker?
  ) throws(CommandUsage) {
    var answers = Answers(ask: ask)
    func place(_ name: String) -> String { directory == "." ? name : directory + "/" + name }
    self.directory = directory
    path = config ?? place("countersign.yaml")

    let isConversation = given.bundleID.isEmpty
    let bundleIDs =
      isConversation ? [try answers.text("--bundle-id", "Bundle ID of the app (com.acme.bikes):")] : given.bundleID
    let products = try Self.products(given.product, &answers)
    let tiers = given.tiers.map { $0.split(separator: ",").map { String($0).trimmed } } ?? Self.tiers(of: products)
    if let product = products.first(where: { $0.tier == tiers.first }) {
      throw CommandUsage(
        description: "--product: \(Quotation.of(product.tier)) of \(Quotation.of(product.id)) is the lowest tier, "
          + "which everybody has; --tiers lists them in ascending order.")
    }
    self.tiers = tiers

    let serverAPI = try Self.serverAPI(given)
    var sharedSecretFile = given.sharedSecretFile
    if sharedSecretFile == nil, serverAPI == nil {
      sharedSecretFile = place("shared-secret")
      try answers.secret(
        "--shared-secret-file", "App-specific shared secret (\(AppStoreConnect.sharedSecret)):",
        unless: "or --server-api-key-file for an app of StoreKit 2 alone", to: place("shared-secret"))
    }

    var supabase = given.supabase
    if isConversation, supabase == nil, given.profileStore == nil {
      supabase = answers.optional("URL of your Supabase project, or nothing:")
    }
    if supabase != nil, given.profileStore != nil {
      throw CommandUsage(description: "--supabase names the profile store too: leave --profile-store out.")
    }
    supabase = try supabase.map { url throws(CommandUsage) in try Self.origin(url) }
    var profileStore: FirstConfiguration.ProfileStore?
    if let url = supabase.map({ $0 + "/rest/v1" }) ?? given.profileStore {
      if given.profileStoreKeyFile == nil {
        try answers.secret(
          "--profile-store-key-file", "Secret key of the profile store (sb_secret_…):", to: place("profile-store-key"))
      }
      profileStore = FirstConfiguration.ProfileStore(
        url: url, keyFile: given.profileStoreKeyFile ?? place("profile-store-key"),
        version: supabase == nil ? nil : "subscription_version")
    } else if given.profileStoreKeyFile != nil {
      throw CommandUsage(description: "--profile-store-key-file needs --supabase or --profile-store.")
    }

    text =
      FirstConfiguration(
        bundleIDs: bundleIDs, tiers: tiers, products: products, sharedSecretFile: sharedSecretFile,
        serverAPI: serverAPI, offers: try Self.offers(given), ledger: place("countersign.sqlite"), supabase: supabase,
        profileStore: profileStore, keyDigest: APIKeyring.sha256(key)
      ).text
    secrets = answers.secrets
    try check(
      sharedSecret: secrets.first { $0.path == sharedSecretFile }?.secret,
      profileStoreKey: secrets.first { $0.path == profileStore?.keyFile }?.secret)
  }

  /// Reads the text as a start does, with the secrets that are in no file yet.
  private func check(sharedSecret: String?, profileStoreKey: String?) throws(CommandUsage) {
    var findings = ConfigurationFindings()
    let file = ConfigurationFile(bytes: Array(text.utf8), name: path, findings: &findings)
    let environment = [
      ConfigurationKey.variable(of: "app_store.shared_secret"): sharedSecret,
      ConfigurationKey.variable(of: "profile_store.key"): profileStoreKey,
    ].compactMapValues(\.self)
    var reader = ConfigurationReader(file: file, environment: environment, findings: findings)
    let configuration: ServiceConfiguration
    do throws(ConfigurationError) {
      configuration = try ServiceConfiguration(&reader, requiresCredential: true)
    } catch {
      let sentences = error.problems.map { "\(Self.option(of: $0)): \($0.sentence)" }
      throw CommandUsage(description: "nothing is written: " + sentences.joined(separator: "\n"))
    }
    guard let key = configuration.profileStore?.postgREST.key, PostgRESTKey.kind(of: key) == .everybodys else { return }
    throw CommandUsage(
      description: "--profile-store-key-file: it is the key of the app's users (anon, authenticated or publishable); a "
        + "secret key (sb_secret_…) is needed.")
  }

  private static let options: [(key: String, option: String)] = [
    ("app_store.bundle_ids", "--bundle-id"), ("app_store.shared_secret", "--shared-secret-file"),
    ("app_store.server_api.key_id", "--server-api-key-id"), ("app_store.server_api.key", "--server-api-key-file"),
    ("app_store.server_api.issuer_id", "--server-api-issuer-id"), ("app_store.offers.key_id", "--offer-key-id"),
    ("app_store.offers.key", "--offer-key-file"), ("app_store.offers.issuer_id", "--offer-issuer-id"),
    ("catalog.tiers", "--tiers"), ("catalog.products", "--product"), ("profile_store.url", "--profile-store"),
    ("profile_store.key", "--profile-store-key-file"), ("auth.jwt", "--supabase"),
  ]

  /// The option that a problem is about, as there is no file with the key yet.
  private static func option(of problem: ConfigurationFinding) -> String {
    let origin = problem.origin
    let known = options.first { origin.hasPrefix($0.key) || origin == ConfigurationKey.variable(of: $0.key) }
    return known?.option ?? origin
  }

  private static func products(
    _ given: [String], _ answers: inout Answers
  ) throws(CommandUsage) -> [FirstConfiguration.Product] {
    var pairs = given
    if pairs.isEmpty {
      pairs = [try answers.text("--product", "A product and its tier, the lowest tier first (com.acme.bikes.pro=pro):")]
      while let next = answers.optional("Another one, or nothing:") { pairs.append(next) }
    }
    var products: [FirstConfiguration.Product] = []
    for pair in pairs {
      let parts = pair.split(separator: "=", maxSplits: 1).map { String($0).trimmed }
      guard parts.count == 2, let id = parts.first, let tier = parts.last, !id.isEmpty, !tier.isEmpty else {
        throw CommandUsage(
          description: "--product: \(Quotation.of(pair)) is not ID=TIER, such as com.acme.bikes.pro=pro.")
      }
      products.append(FirstConfiguration.Product(id: id, tier: tier))
    }
    return products
  }

  /// `free`, and the tiers of the products in their order.
  private static func tiers(of products: [FirstConfiguration.Product]) -> [String] {
    products.reduce(into: ["free"]) { if !$0.contains($1.tier) { $0.append($1.tier) } }
  }

  private static func serverAPI(_ given: InitAnswers) throws(CommandUsage) -> FirstConfiguration.ServerAPI? {
    let values = [given.serverAPIKeyFile, given.serverAPIKeyID, given.serverAPIIssuerID]
    guard values.contains(where: { $0 != nil }) else { return nil }
    guard let file = given.serverAPIKeyFile, let keyID = given.serverAPIKeyID, let issuerID = given.serverAPIIssuerID
    else {
      throw CommandUsage(
        description: "--server-api-key-file, --server-api-key-id and --server-api-issuer-id go together; "
          + "App Store Connect has all three: \(AppStoreConnect.serverAPIKey).")
    }
    return FirstConfiguration.ServerAPI(keyFile: file, keyID: keyID, issuerID: issuerID)
  }

  private static func offers(_ given: InitAnswers) throws(CommandUsage) -> FirstConfiguration.OfferKey? {
    guard given.offerKeyFile != nil || given.offerKeyID != nil || given.offerIssuerID != nil else { return nil }
    guard let file = given.offerKeyFile, let keyID = given.offerKeyID,
      given.offerIssuerID != nil || given.serverAPIIssuerID != nil
    else {
      throw CommandUsage(
        description:
          "--offer-key-file, --offer-key-id and, without --server-api-issuer-id, --offer-issuer-id go together; "
          + "App Store Connect has all of them: \(AppStoreConnect.serverAPIKey).")
    }
    return FirstConfiguration.OfferKey(keyFile: file, keyID: keyID, issuerID: given.offerIssuerID)
  }

  private static func origin(_ url: String) throws(CommandUsage) -> String {
    var url = url
    while url.hasSuffix("/") { url.removeLast() }
    guard url.wholeMatch(of: /https?:\/\/[A-Za-z0-9.:\[\]-]+/) != nil else {
      throw CommandUsage(
        description: "--supabase has to be the URL of a project, such as https://abcdefgh.supabase.co.")
    }
    return url
  }

  // MARK: - Writing

  /// Writes the secrets, then the configuration; or reports what is in the way and ends with 1.
  func write() throws {
    let paths = secrets.map(\.path) + [path]
    var made = directory.hasPrefix("/") ? "/" : ""
    for part in directory.split(separator: "/") {
      made += part + "/"
      guard access(made, F_OK) != 0, mkdir(made, 0o700) != 0 else { continue }
      throw CommandOutput.failure("\(Quotation.of(made, length: 4_096)): \(String(cString: strerror(errno))).")
    }
    if let taken = paths.first(where: { access($0, F_OK) == 0 }) {
      throw CommandOutput.failure(
        "\(Quotation.of(taken, length: 4_096)) exists and stays as it is: name another --directory, or remove it.")
    }
    for secret in secrets { try NewFile.write(Array((secret.secret + "\n").utf8), to: secret.path) }
    try NewFile.write(Array(text.utf8), to: path)
  }

  /// The last words: the key, and how it goes on.
  func closing(key: String) -> String {
    let file = path.wholeMatch(of: /[A-Za-z0-9._\/-]+/) == nil ? "'\(path.replacing("'", with: #"'\''"#))'" : path
    return """
      Written, readable by you alone: \((secrets.map(\.path) + [path]).joined(separator: ", ")).
      Tiers, lowest first: \(tiers.joined(separator: ", ")).

      The key of your backend. It is shown this once, and is in no file:

        export COUNTERSIGN_API_KEY=\(key)

      Next:

        countersign doctor --config \(file)
        countersign serve --config \(file)
        curl -sS http://127.0.0.1:8080/v1/validations -H "Authorization: Bearer $COUNTERSIGN_API_KEY" \\
          -H 'Content-Type: application/json' -d '{"user_id":"user-1","receipt_data":"…"}'
      """
  }
}

/// Answers on the terminal, the secrets among them.
private struct Answers {
  let ask: TerminalQuestion.Asker?
  private(set) var secrets: [InitPlan.NewSecret] = []

  init(ask: TerminalQuestion.Asker?) { self.ask = ask }

  /// - Parameter alternative: another option that would do.
  func text(
    _ option: String, _ question: String, unless alternative: String = "", isSecret: Bool = false
  ) throws(CommandUsage) -> String {
    let other = alternative.isEmpty ? "" : ", \(alternative)"
    guard let ask else {
      throw CommandUsage(description: "\(option) is missing\(other), and there is no terminal to ask on.")
    }
    guard let answer = ask(question, isSecret)?.trimmed, !answer.isEmpty else {
      throw CommandUsage(description: "\(option) is missing\(other); nothing is written.")
    }
    return answer
  }

  /// - Returns: `nil` for an empty answer, and where nobody can be asked.
  func optional(_ question: String) -> String? {
    let answer = ask?(question, false)?.trimmed
    return answer?.isEmpty == false ? answer : nil
  }

  mutating func secret(
    _ option: String, _ question: String, unless alternative: String = "", to path: String
  ) throws(CommandUsage) {
    let secret = try text(option, question, unless: alternative, isSecret: true)
    secrets.append(InitPlan.NewSecret(path: path, secret: secret))
  }
}
