import AppStore
import ArgumentParser
import COpenSSL
import Foundation

/// `bench verification`: receipts decoded and verified here, beside what OpenSSL needs for the one RSA signature of each.
struct VerificationCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verification", abstract: "Verify receipts locally, beside bare RSA-2048.")

  @Option var bodies: String
  @Option(help: "PEM file of the root.") var root: String
  @Option var count = 20_000
  @Option var rounds = 5

  func run() async throws {
    let texts = try PostedBodies.read(bodies, limit: 512).map { Array($0.receiptData.utf8) }
    let verifier = ReceiptVerifier(roots: try TrustedRoots(files: [root]))
    let now = Date()
    func verify(_ text: [UInt8]) throws {
      guard case .app(let receipt) = try SubmittedReceipt.decode(contents: text).content else {
        throw ValidationError("no app receipt")
      }
      _ = try verifier.verify(receipt, now: now)
    }
    for text in texts { try verify(text) }
    let decoded = try texts.map { text in
      guard case .app(let receipt) = try SubmittedReceipt.decode(contents: text).content else {
        throw ValidationError("no app receipt")
      }
      return receipt
    }
    let bare = try BareRSA()
    var whole: [Double] = []
    var signatures: [Double] = []
    var limits: [Double] = []
    // In turns, so that a machine that slows down slows all of them.
    for _ in 0..<rounds {
      whole.append(try microseconds { try verify(texts[$0 % texts.count]) })
      signatures.append(try microseconds { _ = try verifier.verify(decoded[$0 % decoded.count], now: now) })
      limits.append(try microseconds { _ in try bare.verify() })
    }
    print(
      "{\"whole_us\":\(whole.median),\"verify_us\":\(signatures.median),\"rsa_us\":\(limits.median)}")
  }

  private func microseconds(_ body: (Int) throws -> Void) rethrows -> Double {
    let before = ProcessTime.now
    for number in 0..<count { try body(number) }
    return (ProcessTime.now - before).microseconds / Double(count)
  }
}

/// One RSA-2048 signature over a SHA-256 digest, verified again and again with the key and context at hand.
private final class BareRSA {
  private let key: OpaquePointer
  private let context: OpaquePointer
  private let digest = [UInt8](repeating: 7, count: 32)
  private var signature = [UInt8](repeating: 0, count: 256)

  init() throws {
    guard let generator = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nil) else { throw ValidationError("no RSA") }
    defer { EVP_PKEY_CTX_free(generator) }
    var made: OpaquePointer?
    guard EVP_PKEY_keygen_init(generator) == 1, EVP_PKEY_CTX_set_rsa_keygen_bits(generator, 2048) == 1,
      EVP_PKEY_keygen(generator, &made) == 1, let made
    else { throw ValidationError("no RSA key") }
    key = made
    guard let signer = EVP_PKEY_CTX_new(made, nil), let context = EVP_PKEY_CTX_new(made, nil) else {
      throw ValidationError("no RSA context")
    }
    self.context = context
    defer { EVP_PKEY_CTX_free(signer) }
    var length = signature.count
    guard EVP_PKEY_sign_init(signer) == 1, EVP_PKEY_CTX_set_signature_md(signer, EVP_sha256()) == 1,
      EVP_PKEY_sign(signer, &signature, &length, digest, digest.count) == 1, EVP_PKEY_verify_init(context) == 1,
      EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) == 1
    else { throw ValidationError("no RSA signature") }
  }

  deinit {
    EVP_PKEY_CTX_free(context)
    EVP_PKEY_free(key)
  }

  func verify() throws {
    guard EVP_PKEY_verify(context, signature, signature.count, digest, digest.count) == 1 else {
      throw ValidationError("the signature does not hold")
    }
  }
}
