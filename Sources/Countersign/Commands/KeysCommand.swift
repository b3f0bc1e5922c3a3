import ArgumentParser
import Cryptography

/// `countersign keys`
struct KeysCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keys", abstract: "Make keys for access tokens.", subcommands: [New.self])

  /// `countersign keys new`
  struct New: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Make a private key that signs access tokens.",
      discussion: """
        The key is on P-256 (ES256), in PEM. auth.signing_key_file names its file. To \
        change keys, write the new one into that file below the old one, have the \
        service read it (SIGHUP), wait an hour until everybody has it, put it first, \
        and remove the old one an hour later.

        EXIT CODES
            0  done
            1  not done; an existing file is never overwritten
           64  wrong usage

        EXAMPLES
          countersign keys new --out /etc/countersign/signing.pem
        """)

    @Option(name: .long, help: "The file to write, readable by its owner only; standard output if not given.")
    var out: String?

    func run() throws {
      let pem = try ES256PrivateKey.random().pem()
      guard let out else { return print(pem, terminator: "") }
      try NewFile.write(Array(pem.utf8), to: out)
    }
  }
}
