import Cryptography
package import Entitlements
package import FoundationEssentials

/// Data with Apple's signature. `SignedDataVerifier` alone makes a value of this type, after the check: each is a proof.
package struct Verified<Payload: SignedContent>: Hashable, Sendable {
  package let payload: Payload
  package let signer: ReceiptSigner
  /// The store; the sandbox for data signed by Xcode, where that is accepted; `nil` for an unknown store.
  package let environment: StoreEnvironment?

  fileprivate init(_ payload: Payload, signer: ReceiptSigner, environment: StoreEnvironment?) {
    self.payload = payload
    self.signer = signer
    self.environment = environment
  }
}

package typealias VerifiedTransaction = Verified<SignedTransaction>
package typealias VerifiedRenewalInfo = Verified<SignedRenewalInfo>
package typealias VerifiedAppTransaction = Verified<SignedAppTransaction>

/// A notification that Apple signed, with its signed contents. Only `SignedDataVerifier` makes one, so a value of this
/// type is the proof.
package struct VerifiedNotification: Hashable, Sendable {
  package let notification: SignedNotification
  package let transaction: VerifiedTransaction?
  package let renewalInfo: VerifiedRenewalInfo?
  package let signer: ReceiptSigner
  /// The store, by the notification or by its contents.
  package let environment: StoreEnvironment?
  /// The date of the notification, or if it has none (2022) of its contents.
  package let signedDate: Date

  package var bundleID: BundleID? { notification.bundleID ?? transaction?.payload.bundleID }

  fileprivate init(
    _ notification: SignedNotification, transaction: VerifiedTransaction?, renewalInfo: VerifiedRenewalInfo?,
    signer: ReceiptSigner, environment: StoreEnvironment?, signedDate: Date
  ) {
    self.notification = notification
    self.transaction = transaction
    self.renewalInfo = renewalInfo
    self.signer = signer
    self.environment = environment
    self.signedDate = signedDate
  }
}

/// The verifier of transactions, renewal infos and notifications, which needs no call to Apple.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwstransaction
///
///     alg     ES256, and nothing else
///     x5c     three certificates; signer and intermediate carry Apple's marks, and lead to a trusted root with an
///             elliptic key, which is found among ours: the third certificate is not looked at
///     time    every link valid at the signed date, which lies at most five minutes ahead of our clock
///     r || s  64 octets, over the first two parts as they were sent
///
/// The date is read from content that is not yet proven. That is no circle: the signature that is then checked covers
/// it. `now` is the service's clock, to refuse signatures from the future.
package struct SignedDataVerifier: Sendable {
  /// Xcode's name for the key that it signs with.
  static let xcodeKeyID = "Apple_Xcode_Key"

  let chains: SignedDataChains
  private let acceptsXcode: Bool

  /// - Parameters:
  ///   - acceptsXcode: whether data that Xcode or local testing signed is taken for the sandbox's. **Anybody can sign
  ///     such data**: for development only.
  ///   - cachedChains: how many chains of certificates that verified are remembered.
  package init(roots: TrustedRoots = .apple, acceptsXcode: Bool = false, cachedChains: Int = 64) {
    chains = SignedDataChains(roots: roots, limit: cachedChains)
    self.acceptsXcode = acceptsXcode
  }

  package func transaction(_ jws: String, now: Date) throws(SignedDataError) -> VerifiedTransaction {
    let (jws, payload) = try Self.decode(jws)
    guard case .transaction(let transaction) = payload else {
      throw .undecodable(payload.mistake(wanted: .transaction))
    }
    return try verify(transaction, of: jws, now: now)
  }

  package func appTransaction(_ jws: String, now: Date) throws(SignedDataError) -> VerifiedAppTransaction {
    let (jws, payload) = try Self.decode(jws)
    guard case .appTransaction(let transaction) = payload else {
      throw .undecodable(payload.mistake(wanted: .appTransaction))
    }
    return try verify(transaction, of: jws, now: now)
  }

  package func renewalInfo(_ jws: String, now: Date) throws(SignedDataError) -> VerifiedRenewalInfo {
    let (jws, payload) = try Self.decode(jws)
    guard case .renewalInfo(let renewalInfo) = payload else {
      throw .undecodable(payload.mistake(wanted: .renewalInfo))
    }
    return try verify(renewalInfo, of: jws, now: now)
  }

  /// Checks the notification and its contents: each signature, and that all are of one app and one environment.
  package func notification(_ jws: String, now: Date) throws(SignedDataError) -> VerifiedNotification {
    let (jws, payload) = try Self.decode(jws)
    guard case .notification(let notification) = payload else {
      throw .undecodable(payload.mistake(wanted: .notification))
    }
    return try verify(notification, of: jws, now: now)
  }

  private static func decode(_ text: String) throws(SignedDataError) -> (CompactJWS, SignedPayload) {
    do throws(UndecodableReceipt) {
      let jws = try CompactJWS(Array(ReceiptText.trimmed(Array(text.utf8))))
      return (jws, try SignedPayload(jws))
    } catch {
      throw .undecodable(error)
    }
  }
}

extension SignedDataVerifier {
  func verify<Payload>(
    _ payload: Payload, of jws: CompactJWS, now: Date
  ) throws(SignedDataError) -> Verified<Payload> {
    let environment = payload.signedEnvironment
    let signer = try signer(of: jws, environment, signedDate: payload.signedDate, now: now)
    return Verified(payload, signer: signer, environment: store(environment))
  }

  func verify(
    _ notification: SignedNotification, of jws: CompactJWS, now: Date
  ) throws(SignedDataError) -> VerifiedNotification {
    var transaction: VerifiedTransaction?
    if let text = notification.signedTransactionInfo { transaction = try self.transaction(text, now: now) }
    var renewalInfo: VerifiedRenewalInfo?
    if let text = notification.signedRenewalInfo { renewalInfo = try self.renewalInfo(text, now: now) }

    let inner = [
      transaction.map { ($0.payload.signedDate, $0.payload.environmentName) },
      renewalInfo.map { ($0.payload.signedDate, $0.payload.environmentName) },
    ].compactMap { $0 }
    guard let signedDate = notification.signedDate ?? inner.first?.0 else {
      throw .undecodable(.damagedJWS("it is \(SignedPayload.Kind.notification.words) without signedDate"))
    }
    let name = notification.environmentName ?? inner.compactMap(\.1).first
    let environment = name.map { SignedEnvironment(name: $0) }
    let signer = try signer(of: jws, environment, signedDate: signedDate, now: now)

    if let outer = notification.bundleID, let inner = transaction?.payload.bundleID, inner != outer {
      throw .notAuthentic(.innerOfAnotherApp)
    }
    guard inner.allSatisfy({ $0.1 == nil || $0.1 == name }) else { throw .notAuthentic(.innerOfAnotherEnvironment) }
    return VerifiedNotification(
      notification, transaction: transaction, renewalInfo: renewalInfo, signer: signer,
      environment: environment.flatMap { store($0) }, signedDate: signedDate)
  }

  private func signer(
    of jws: CompactJWS, _ environment: SignedEnvironment?, signedDate: Date, now: Date
  ) throws(SignedDataError) -> ReceiptSigner {
    do throws(NotAuthentic) {
      return try check(jws, environment, signedDate: signedDate, now: now)
    } catch {
      throw .notAuthentic(error)
    }
  }

  func check(
    _ jws: CompactJWS, _ environment: SignedEnvironment?, signedDate: Date, now: Date
  ) throws(NotAuthentic) -> ReceiptSigner {
    let signer = try checkSignature(jws, environment, signedDate: signedDate)
    // Checked last: an unsigned date could say anything about the clocks.
    guard signedDate.timeIntervalSince(now) <= ReceiptVerifier.skewAllowance else { throw .createdInFuture }
    return signer
  }

  func checkSignature(
    _ jws: CompactJWS, _ environment: SignedEnvironment?, signedDate: Date
  ) throws(NotAuthentic) -> ReceiptSigner {
    let header = jws.header
    guard !header.hasCriticalExtensions else { throw .criticalExtension }
    guard header.algorithm == "ES256" else { throw .unsupportedAlgorithm(header.algorithm) }
    if let environment, environment.isLocal {
      guard acceptsXcode else { throw environment == .xcode ? .xcode : .localTesting }
      return try checkLocal(jws)
    }
    guard header.certificates.count == 3 else {
      throw header.keyID == Self.xcodeKeyID ? .xcode : .wrongCertificateCount(header.certificates.count)
    }
    let certificates = try Self.certificates(header)
    let signer = try chains.signer(certificates[0], certificates[1], at: signedDate)
    guard signer.key.hasMade(jws.signature, over: jws.signed) else { throw .signatureMismatch }
    return signer.certificate
  }

  /// Checks data from Xcode. Its key leads to no root: the check finds only later changes.
  private func checkLocal(_ jws: CompactJWS) throws(NotAuthentic) -> ReceiptSigner {
    guard let der = try Self.certificates(jws.header).first else { throw .wrongCertificateCount(0) }
    guard let certificate = Certificate(der: der) else { throw .unreadableCertificate }
    guard let key = ES256PublicKey(of: certificate) else { throw .signerNotP256 }
    guard key.hasMade(jws.signature, over: jws.signed) else { throw .signatureMismatch }
    return ReceiptSigner(certificate, digest: "sha256")
  }

  /// `x5c` in DER (RFC 7515, section 4.1.6: standard base64, not base64url).
  private static func certificates(_ header: JWSHeader) throws(NotAuthentic) -> [[UInt8]] {
    var certificates: [[UInt8]] = []
    for text in header.certificates {
      guard text.utf8.count <= SignedDataChains.certificateLimit * 4 / 3 + 4, let der = Data(base64Encoded: text),
        !der.isEmpty
      else { throw .unreadableCertificate }
      certificates.append([UInt8](der))
    }
    return certificates
  }

  /// The store that decides the rules.
  private func store(_ environment: SignedEnvironment) -> StoreEnvironment? {
    environment.isLocal && acceptsXcode ? .sandbox : environment.store
  }
}

package enum SignedDataError: Error, Hashable, Sendable {
  /// The text is unreadable, or of another kind than wanted.
  case undecodable(UndecodableReceipt)
  /// The text is readable, and Apple did not sign it.
  case notAuthentic(NotAuthentic)
}

extension SignedDataError: CustomStringConvertible {
  /// A sentence for the sender. It quotes nothing of the data.
  package var description: String {
    switch self {
    case .undecodable(let error): error.detail
    case .notAuthentic(let reason): reason.description
    }
  }
}
