import AppStore
import CountersignServer
import Entitlements
import Files
import FoundationEssentials
import HTTPTransport
import Ledger
import Logging
import NIOSSL
import Profiles
import Resilience
import Tokens

/// Checks everything that the service depends on, and changes nothing.
///
/// The checks run concurrently, each with its own time limit: the whole takes no longer than the longest of them.
struct Checkup: Sendable {
  /// Time limit of one call to Apple or to the profile store.
  static let callLimit: Duration = .seconds(10)
  /// For the ledger's structure.
  static let ledgerLimit: Duration = .seconds(20)
  /// Seconds. A working renewal has replaced a certificate this long before its end.
  static let renewal: Double = 14 * 86_400
  /// Bytes of free space below which a disk is nearly full.
  static let leastFreeBytes: UInt64 = 512 << 20

  var configuration: ServiceConfiguration
  /// A receipt with a subscription to send to Apple; `nil`: the newest in the ledger.
  var receipt: String?
  /// Whether Apple is asked to post test notifications.
  var testsNotifications = false
  var openFileLimit: Double?
  /// The machine's clock.
  var now: @Sendable () -> Date = { Date() }

  func run() async -> [Finding] {
    let checks: [@Sendable () async -> [Finding]] = [
      appStoreFindings, serverAPIFindings, ledgerFindings, catalogFindings, profileStoreFindings, callerFindings,
      serviceFindings, missingFindings, testNotificationFindings,
    ]
    // Not `async let`: compilers before 6.3.1 free its memory in a wrong order, which ends the process
    // (https://github.com/swiftlang/swift/issues/81771).
    let found = await mapConcurrently(checks, width: checks.count) { await $0() }
    return configurationFindings() + limitFindings() + serverFindings() + authorityFindings() + found.flatMap(\.self)
  }

  // MARK: - Checks without I/O outside

  func configurationFindings() -> [Finding] {
    [Finding("configuration", .ok, "every key is known and every value can be used")]
      + configuration.warnings.map { Finding("configuration", .warning, $0.description) }
  }

  func limitFindings() -> [Finding] {
    let server = configuration.server
    var needed = configuration.appStore.deadline
    if let profileStore = configuration.profileStore { needed += profileStore.deadline }
    var findings = [
      Finding(
        "limits", .ok,
        "a request may take \(server.requestDeadline.configurationText), of which Apple and the profile "
          + "store get \(needed.configurationText) at most")
    ]
    // Besides the callers' connections: those to Apple and to the store, the ledger's, the operators', and the
    // runtime's.
    let files = server.maxConnections + configuration.appStore.concurrency + ServiceListener.operatorsConnections + 128
    if let openFileLimit, openFileLimit < Double(files) {
      findings.append(
        Finding(
          "limits", .warning,
          "\(Int(openFileLimit)) files may be open, and server.max_connections asks for \(files); raise the limit "
            + "(LimitNOFILE, ulimit -n), or lower server.max_connections"))
    }
    return findings
  }

  /// The configured callers. A configuration without any is already an error.
  func callerFindings() async -> [Finding] {
    let count = configuration.auth.apiKeys.count
    let keys = Finding("auth.api_keys", .ok, "\(count) API \(count == 1 ? "key" : "keys")")
    guard let jwt = configuration.auth.jwt else { return [keys] }
    let services: UserTokenServices
    do throws(StartError) { services = try jwt.services(environment: .silent) } catch {
      return [keys, Finding("auth.jwt", .fail, error.description)]
    }
    defer { services.transport?.shutdown() }
    guard let keySet = services.verifier.keySet else {
      return [keys, Finding("auth.jwt", .ok, "users' tokens are checked with the secret")]
    }
    await keySet.refreshIfDue()
    switch keySet.health {
    case .ok: return [keys, Finding("auth.jwt", .ok, "the keys that sign users' tokens can be fetched")]
    case .unknown, .stale, .unavailable:
      let cause = if case .unavailable(let cause) = keySet.health { cause } else { "no answer" }
      let help =
        cause == RemoteKeySet.noKey
        ? "if the project signs with its JWT secret, set auth.jwt.secret_file in the place of auth.jwt.jwks_url, or change "
          + "to signing keys"
        : "is auth.jwt.jwks_url right?"
      return [
        keys,
        Finding(
          "auth.jwt", .fail,
          "the keys that sign users' tokens cannot be fetched (\(cause)), and users get 503; \(help)"),
      ]
    }
  }

  // MARK: - Certificates

  func serverFindings() -> [Finding] {
    let server = configuration.server
    guard let tls = server.tls else {
      return [
        Finding(
          "server.tls", .ok,
          Loopback.contains(host: server.host)
            ? "plain HTTP, which only this machine can reach" : "plain HTTP, as configured")
      ]
    }
    do throws(ServerIdentity.Unusable) {
      let identity = try ServerIdentity(tls)
      if let sentence = identity.lapse(at: now()) { return [Finding("server.tls", .fail, sentence)] }
      let end = identity.end.rfc3339
      guard identity.end.timeIntervalSince(now()) > Self.renewal else {
        return [
          Finding("server.tls", .warning, "the certificate ends soon, at \(end); renew it, a restart is not needed")
        ]
      }
      return [Finding("server.tls", .ok, "the key belongs to the certificate, which counts until \(end)")]
    } catch {
      return [Finding("server.tls", .fail, "\(error.isAboutKey ? "key_file" : "certificate_file"): \(error.sentence)")]
    }
  }

  func authorityFindings() -> [Finding] {
    var findings: [Finding] = []
    if let file = configuration.appStore.caFile { findings.append(authorities("app_store.ca_file", file)) }
    if let file = configuration.profileStore?.caFile { findings.append(authorities("profile_store.ca_file", file)) }
    let files = configuration.appStore.roots
    guard !files.isEmpty else { return findings + [Finding("app_store.roots", .ok, "Apple's, which are built in")] }
    do throws(TrustedRoots.Invalid) {
      let roots = try TrustedRoots(files: files)
      let certificates = roots.certificates.compactMap { try? NIOSSLCertificate(bytes: $0, format: .der) }
      findings.append(validity("app_store.roots", certificates))
    } catch { findings.append(Finding("app_store.roots", .fail, error.description)) }
    return findings
  }

  private func authorities(_ subject: String, _ path: String) -> Finding {
    guard let file = try? BoundedFile(path: path, limit: ConfigurationReader.certificateFileLimit),
      let certificates = try? NIOSSLCertificate.fromPEMBytes(file.bytes), !certificates.isEmpty
    else { return Finding(subject, .fail, "the file holds no certificate in PEM; name a bundle of authorities") }
    return validity(subject, certificates)
  }

  private func validity(_ subject: String, _ certificates: [NIOSSLCertificate]) -> Finding {
    let now = now().timeIntervalSince1970
    let current = certificates.count { Double($0.notValidBefore) <= now && now < Double($0.notValidAfter) }
    let count = "\(certificates.count) \(certificates.count == 1 ? "certificate" : "certificates")"
    guard current > 0 else { return Finding(subject, .fail, "\(count), and none is valid today; name current ones") }
    let over = certificates.count - current
    return over == 0
      ? Finding(subject, .ok, "\(count), valid today")
      : Finding(subject, .warning, "\(count), \(over) of them not valid today")
  }

  // MARK: - Ledger

  func ledgerFindings() async -> [Finding] {
    if case .database(let url, _) = configuration.ledger.place { return await databaseFindings(url) }
    let inspection = await LedgerInspection.inspect(path: configuration.ledger.path, within: Self.ledgerLimit)
    let place = configuration.ledger.place.name
    var findings: [Finding] = []
    func add(_ verdict: Finding.Verdict, _ sentence: String) { findings.append(Finding("ledger", verdict, sentence)) }
    switch inspection.state {
    case .absent: add(.ok, "there is none yet at \(place); the first start makes it")
    case .inUse: add(.ok, "the service has it open: \(place)")
    case .sound(isComplete: true): add(.ok, "\(place) can be opened, and its structure is sound")
    case .sound(isComplete: false):
      add(
        .ok,
        "\(place) can be opened; its structure was checked for \(Self.ledgerLimit.configurationText), which was "
          + "not enough for all of it, and nothing was wrong")
    case .unusable(let error): add(.fail, error.description)
    }
    if !inspection.exposures.isEmpty {
      let isToEverybody = inspection.exposures.contains(where: \.isToEverybody)
      let files = inspection.exposures.map { "\($0.path) (mode \($0.modeText))" }
      add(
        isToEverybody ? .fail : .warning,
        "\(isToEverybody ? "every user of this machine" : "the group") may read or write "
          + "\(Wording.list(files)), where receipts are; chmod 600 keeps them to their owner")
    }
    if let problem = inspection.fileSystemProblem { add(.warning, "its file system \(problem)") }
    if let free = inspection.freeBytes {
      let text = Wording.roughSize(free)
      if free < Self.leastFreeBytes {
        add(.fail, "only \(text) are free on its disk; when it is full, nothing can be recorded")
      } else {
        add(.ok, "\(text) are free on its disk")
      }
    }
    return findings
  }

  private func databaseFindings(_ url: String) async -> [Finding] {
    let server: PostgreSQLInspection
    do throws(LedgerOpenError) { server = try await PostgreSQLInspection.inspect(url: url) } catch {
      return [Finding("ledger", .fail, error.description)]
    }
    var findings = [
      Finding(
        "ledger", .ok,
        "\(configuration.ledger.place.name): PostgreSQL \(server.version), transactions are serializable, "
          + "synchronous_commit is \(server.synchronousCommit)")
    ]
    guard let replicas = server.replicas else {
      return findings + [Finding("ledger", .ok, "the database is empty; the first start makes the tables")]
    }
    findings.append(
      Finding(
        "ledger", .ok, replicas == 1 ? "1 replica of the service lives" : "\(replicas) replicas of the service live"))
    findings.append(
      server.standbys == 0
        ? Finding("ledger", .ok, "no standby is connected to the server")
        : Finding("ledger", .ok, "\(server.standbys) standbys are connected to the server"))
    if server.connectionsLeft < configuration.ledger.pool {
      findings.append(
        Finding(
          "ledger", .warning,
          "the server has room for \(server.connectionsLeft) more connections, and ledger.pool is "
            + "\(configuration.ledger.pool)"))
    }
    return findings
  }

  // MARK: - Profile store

  func profileStoreFindings() async -> [Finding] {
    guard let profileStore = configuration.profileStore else {
      return [Finding("profile_store", .ok, "none is configured; verdicts are not written anywhere else")]
    }
    let services: ProfileStoreServices
    do throws(StartError) {
      services = try profileStore.services(environment: .silent)
    } catch {
      return [Finding("profile_store", .fail, error.description)]
    }
    defer { services.transport.shutdown() }
    switch await services.store.check(deadline: .now.advanced(by: Self.callLimit)) {
    case .ok: return [Finding("profile_store", .ok, "answers, and our key may write every column")]
    case .misconfigured(let trouble): return [Finding("profile_store", .fail, trouble.description)]
    case .unavailable(let trouble):
      return [
        Finding(
          "profile_store", .fail,
          "\(trouble). Verdicts are recorded meanwhile, and written when it is back; is profile_store.url right?")
      ]
    }
  }
}

extension ServiceEnvironment {
  /// For a command that reports its findings itself.
  static let silent = ServiceEnvironment(
    logger: Logger(label: "countersign", factory: { _ in SwiftLogNoOpLogHandler() }), ledgerFailed: { _ in })
}
