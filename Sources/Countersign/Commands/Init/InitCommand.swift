import ArgumentParser
import CountersignServer
import Cryptography
import Glibc

/// `countersign init`
struct InitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "init",
    abstract: "Write a short configuration for your own app, with an API key.",
    discussion: """
      On a terminal it asks for what is not given. It writes countersign.yaml, and secrets \
      that were typed into files of their own, all readable by their owner only. The API \
      key of your backend is printed once: the file has only its SHA-256. Nothing that \
      exists is overwritten.

      From App Store Connect:
        shared secret   \(AppStoreConnect.sharedSecret)
        Server API key  \(AppStoreConnect.serverAPIKey)
        notifications   \(AppStoreConnect.notifications)

      EXIT CODES
          0  done
          1  not done, for instance because a file exists
         64  something is missing or wrong

      EXAMPLES
        countersign init
        countersign init --bundle-id com.acme.bikes --product com.acme.bikes.pro=pro \\
          --shared-secret-file shared-secret
        countersign init --bundle-id com.acme.bikes --product com.acme.bikes.pro=pro \\
          --shared-secret-file shared-secret --supabase https://abc.supabase.co \\
          --profile-store-key-file profile-store-key
      """)

  @OptionGroup var answers: InitAnswers

  @Option(name: .long, help: "The directory of the files; it is made, with those above it, if it is not there.")
  var directory = "."

  @Option(name: .long, help: "The file to write; countersign.yaml in the directory if not given.")
  var config: String?

  func run() throws {
    let key = hexadecimal((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    let plan: InitPlan
    do throws(CommandUsage) {
      plan = try InitPlan(answers, directory: directory, config: config, key: key, ask: TerminalQuestion.terminal)
    } catch { throw CommandOutput.failure(error.description, .usage) }
    try plan.write()
    print(plan.closing(key: key))
  }
}

/// The options about the app; each may be asked for instead.
struct InitAnswers: ParsableArguments {
  @Option(name: .long, help: "The app's bundle ID; may be repeated.")
  var bundleID: [String] = []

  @Option(
    name: .long,
    help: "A product and the tier that it gives, such as com.acme.pro=pro; may be repeated, the lowest tier first.")
  var product: [String] = []

  @Option(
    name: .long,
    help: "The tiers, the lowest first, with commas; if not given, free and those of the products in their order.")
  var tiers: String?

  @Option(name: .long, help: "A file that has the app-specific shared secret and nothing else.")
  var sharedSecretFile: String?

  @Option(name: .long, help: "The key of the App Store Server API (.p8), with the two IDs below.")
  var serverAPIKeyFile: String?

  @Option(name: .long, help: "The ID of that key.")
  var serverAPIKeyID: String?

  @Option(name: .long, help: "The issuer ID above the list of keys.")
  var serverAPIIssuerID: String?

  @Option(name: .long, help: "A key that signs offers in the place of that one (.p8), with its ID below.")
  var offerKeyFile: String?

  @Option(name: .long, help: "The ID of that key.")
  var offerKeyID: String?

  @Option(name: .long, help: "Its issuer ID, if that of the Server API is not given.")
  var offerIssuerID: String?

  @Option(
    name: .long, help: "The URL of a Supabase project: its users may call, and its table profiles gets the tiers.")
  var supabase: String?

  @Option(name: .long, help: "The URL of another PostgREST, whose table profiles gets the tiers.")
  var profileStore: String?

  @Option(name: .long, help: "A file that has the secret key of either and nothing else.")
  var profileStoreKeyFile: String?
}
