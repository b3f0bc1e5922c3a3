import ArgumentParser
import CountersignServer
import Cryptography
import Foundation

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
      let descriptor = open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
      guard descriptor >= 0 else {
        CommandOutput.error("\(Quotation.of(out, length: 4_096)): \(String(cString: strerror(errno))).")
        throw ExitCode.failure
      }
      let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
      do {
        try file.write(contentsOf: Data(pem.utf8))
        try file.synchronize()
      } catch {
        unlink(out)
        CommandOutput.error("\(Quotation.of(out, length: 4_096)) could not be written.")
        throw ExitCode.failure
      }
    }
  }
}
