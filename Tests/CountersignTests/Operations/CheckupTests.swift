import CountersignAPI
import Entitlements
import Crypto
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStore
@testable import AppStoreSimulator
@testable import Countersign

/// `countersign doctor`: every trouble is told, with what to do, and nothing else is.
@Suite struct CheckupTests {
  /// A configuration in a directory of its own, in which the ledger is.
  private struct Deployment {
    let directory: TemporaryDirectory
    let configuration: ServiceConfiguration

    init(_ apple: Apple, _ settings: Settings = Settings()) throws {
      directory = try TemporaryDirectory()
      let yaml = settings.yaml(apple: apple, directory: directory.url)
      configuration = try ServiceConfiguration.load(
        file: try directory.write("countersign.yaml", yaml), environment: [:])
    }

    func checkup(receipt: String? = nil, openFileLimit: Double? = 20_000, now: Date = noon) -> Checkup {
      Checkup(configuration: configuration, receipt: receipt, openFileLimit: openFileLimit, now: { now })
    }

    var ledger: String { configuration.ledger.path }
  }

  private func simulated(
    _ settings: Settings = Settings(), secret: String? = nil,
    body: @Sendable (SimulatedStore, Deployment) async throws -> Void
  ) async throws {
    try await SimulatedStore.run { store in
      var apple = store.apple
      if let secret { apple.sharedSecret = secret }
      try await body(store, Deployment(apple, settings))
    }
  }

  private func texts(_ findings: [Finding], _ subject: String) -> [String] {
    findings.filter { $0.subject == subject }.map { "\($0.verdict.rawValue): \($0.sentence)" }
  }

  // MARK: - All well

  @Test func `a sound setup has nothing to mend, and no secret is printed`() async throws {
    try await ProfileStoreDouble.running { profiles in
      try await simulated(Settings(profileStore: .store(profiles.url))) { store, deployment in
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
        let report = CheckupReport(await deployment.checkup(receipt: receipt).run())
        #expect(report.status == .ok, "\(report.text)")
        #expect(texts(report.findings, "app_store.shared_secret") == ["ok: Apple takes it"])
        #expect(texts(report.findings, "clock").allSatisfy { $0.hasPrefix("ok: ") })
        #expect(texts(report.findings, "profile_store") == ["ok: answers, and our key may write every column"])
        #expect(
          texts(report.findings, "ledger").first
            == "ok: there is none yet at \(deployment.ledger); the first start makes it")
        #expect(!FileManager.default.fileExists(atPath: deployment.ledger))
        for secret in [SimulatedStore.sharedSecret, "sb_secret", String(receipt.prefix(40))] {
          #expect(!report.text.contains(secret))
        }
        #expect(report.text.split(separator: "\n").count == report.findings.count)
      }
    }
  }

  // MARK: - Apple

  @Test func `Apple's test notification is told with how it fared, where it is asked for`() async throws {
    try await SimulatedStore.run { store in
      let deployment = try Deployment(store.apple())
      #expect(await deployment.checkup().testNotificationFindings().isEmpty)
      @Sendable func outcome() async -> [String] {
        var checkup = deployment.checkup()
        checkup.testsNotifications = true
        return texts(await checkup.testNotificationFindings(), "notifications.production")
      }
      #expect(await outcome().first?.hasPrefix("warning: com.example.app has no URL for them") == true)
      try await WebhookReceiver.running { receiver in
        try store.simulator.deliverNotifications(to: receiver.url)
        #expect(await outcome() == ["ok: Apple's test of com.example.app arrived"])
        receiver.answer(500)
        #expect(await outcome().first?.contains("did not arrive (UNSUCCESSFUL_HTTP_RESPONSE_CODE)") == true)
      }
    }
  }

  @Test func `the key that signs offers is named, and what is missing`() async throws {
    try await SimulatedStore.run { store in
      @Sendable func said(_ apple: Apple, _ settings: Settings = Settings()) async throws -> String {
        let findings = try await Deployment(apple, settings).checkup().missingFindings()
        return try #require(texts(findings, "app_store.offers").first)
      }
      #expect(try await said(store.apple).hasPrefix("ok: is not set, nor is app_store.server_api: no key signs offers"))
      #expect(try await said(store.apple()) == "ok: is not set: the key of app_store.server_api signs offers")
      let directory = try TemporaryDirectory()
      let file = try directory.write("offer-key.p8", Settings.signingKeyOfTests)
      var settings = Settings()
      let ids = "key_id: 2X9R4HXF34, issuer_id: 57246542-96fe-1a63-e053-0824d011072a"
      settings.appStore["offers"] = "{ key_file: \(file), \(ids) }"
      #expect(
        try await said(store.apple, settings).hasPrefix("warning: the key 2X9R4HXF34 can be read, and no product"))
      settings.products["com.example.app.pro.monthly"] = "{ tier: pro, offers: { winter: expired } }"
      #expect(try await said(store.apple, settings).hasPrefix("ok: the key 2X9R4HXF34 can be read; StoreKit shows"))
      let none = try directory.write("broken.p8", "none")
      settings.appStore["offers"] = "{ key_file: \(none), \(ids) }"
      let broken = settings
      #expect { try Deployment(store.apple, broken) } throws: { "\($0)".contains("app_store.offers.key") }
    }
  }

  @Test func `the key of the Server API is shown to both stores, and each says whether it takes it`() async throws {
    let production = "app_store.server_api.production_url"
    let sandbox = "app_store.server_api.sandbox_url"
    try await SimulatedStore.run { store in
      let deployment = try Deployment(store.apple())
      let well = await deployment.checkup().serverAPIFindings()
      #expect(well.map(\.subject) == [production, sandbox])
      #expect(well.allSatisfy { $0.verdict == .ok && $0.sentence.contains("takes the key") }, "\(well)")
      #expect(await (try Deployment(store.apple)).checkup().serverAPIFindings() == [])

      store.simulator.setTrouble(.serverAPIKeyRejected)
      let refused = await deployment.checkup().serverAPIFindings()
      #expect(refused.map(\.subject) == [production, sandbox])
      #expect(refused.allSatisfy { $0.verdict == .fail && $0.sentence.contains("key_id and issuer_id") }, "\(refused)")

      // Of an app that was never released; nothing is to be mended.
      store.simulator.setTrouble(.serverAPIKeyRejected, environment: .production)
      let unreleased = await deployment.checkup().serverAPIFindings()
      #expect(unreleased.map(\.verdict) == [.warning, .ok], "\(unreleased)")
      #expect(texts(unreleased, production).first?.contains("released for the first time") == true)

      store.simulator.setTrouble(.http503)
      let away = await deployment.checkup().serverAPIFindings()
      #expect(away.first?.verdict == .fail && away.first?.sentence.contains("HTTP 503") == true, "\(away)")
    }
  }

  @Test func `a sweep for refunds that is off is told where the app sells something for life`() async throws {
    try await SimulatedStore.run { store in
      for (interval, sellsOnce, count) in [("0", true, 1), ("0", false, 0), ("7d", true, 0)] {
        var settings = Settings(appStore: ["refund_sweep": interval])
        if !sellsOnce { settings.products = ["com.example.app.pro.monthly": "{ tier: pro }"] }
        let findings = await (try Deployment(store.apple(), settings)).checkup().missingFindings()
        #expect(texts(findings, "app_store.refund_sweep").count == count)
      }
    }
  }

  @Test func `without a receipt the secret is not proven, and the line says how to prove it`() async throws {
    try await simulated { _, deployment in
      let findings = await deployment.checkup().run()
      #expect(
        texts(findings, "app_store.shared_secret") == [
          "warning: is not proven: Apple looks at it only with a receipt that has a subscription; give one with "
            + "--receipt FILE"
        ])
      #expect(texts(findings, "app_store.production_url").allSatisfy { $0.hasSuffix("with status 21002") })
      #expect(CheckupReport(findings).status == .ok)
    }
  }

  @Test func `a wrong secret is told by a receipt that is given`() async throws {
    try await simulated(secret: "not-the-secret") { store, deployment in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let findings = await deployment.checkup(receipt: receipt).run()
      #expect(texts(findings, "app_store.shared_secret").allSatisfy { $0.hasPrefix("fail: Apple refuses it (21004)") })
      #expect(CheckupReport(findings).status == .fail)
      #expect(!CheckupReport(findings).text.contains("not-the-secret"))
    }
  }

  @Test(.ofTheFile)
  func `the newest receipt of the ledger proves the secret, also while the service runs`() async throws {
    try await RunningService.besideStore { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await service.validate(receipt).status == 200)
      for (secret, expected) in [
        (SimulatedStore.sharedSecret, "ok: Apple takes it"), ("changed", "fail: Apple refuses it (21004)"),
      ] {
        var apple = store.apple
        apple.sharedSecret = secret
        let yaml = Settings().yaml(apple: apple, directory: service.directory)
        let file = service.directory.appending(path: "doctor-\(secret).yaml")
        try yaml.write(to: file, atomically: true, encoding: .utf8)
        let configuration = try ServiceConfiguration.load(file: file.path(percentEncoded: false), environment: [:])
        let findings = await Checkup(configuration: configuration, now: { noon }).run()
        #expect(texts(findings, "app_store.shared_secret").allSatisfy { $0.hasPrefix(expected) }, "\(findings)")
        #expect(texts(findings, "ledger").first?.hasPrefix("ok: the service has it open: /") == true)
      }
      // The service goes on as before.
      #expect(try await service.validate(receipt).status == 200)
    }
  }

  @Test(
    arguments: [
      (Trouble.http503, "answers HTTP 503"), (.html, "is not verifyReceipt"), (.emptyBody, "is not verifyReceipt"),
      (.reset, "breaks off"), (.status21000, "our request was wrong"),
    ])
  func `a trouble of Apple's is told`(trouble: Trouble, sentence: String) async throws {
    try await simulated { store, deployment in
      store.simulator.setTrouble(trouble, count: nil, environment: nil)
      let findings = await deployment.checkup().run()
      for subject in ["app_store.production_url", "app_store.sandbox_url"] {
        #expect(texts(findings, subject).allSatisfy { $0.hasPrefix("fail: ") && $0.contains(sentence) }, "\(findings)")
      }
    }
  }

  @Test func `a trouble that passes is only a warning`() async throws {
    try await simulated { store, deployment in
      store.simulator.setTrouble(.status21005, count: nil, environment: nil)
      let findings = await deployment.checkup().run()
      #expect(texts(findings, "app_store.production_url").allSatisfy { $0.hasPrefix("warning: ") })
      #expect(CheckupReport(findings).status == .ok)
    }
  }

  @Test func `Apple that cannot be reached is told, with the firewall`() async throws {
    let findings = await (try Deployment(.unreachable)).checkup().run()
    #expect(texts(findings, "app_store.production_url").allSatisfy { $0.hasPrefix("fail: no connection") })
    #expect(texts(findings, "clock") == ["warning: is not compared: Apple sent no time"])
  }

  @Test func `an authority that did not sign Apple's certificate is told`() async throws {
    let other = try TestCertificateAuthority(commonName: "Another Root")
    try await SimulatedStore.run { store in
      var apple = store.apple
      apple.caFile = other.caFile
      let findings = await (try Deployment(apple)).checkup().run()
      #expect(
        texts(findings, "app_store.production_url").allSatisfy {
          $0.hasPrefix("fail: TLS fails") && $0.contains("app_store.ca_file")
        })
    }
  }

  @Test(arguments: [(-7_200.0, "is 2 hours behind"), (7_200, "is 2 hours ahead")])
  func `a clock that is wrong is told, with how far`(seconds: Double, sentence: String) {
    let reply = Checkup.Reply(
      environment: .production, outcome: .status(21002), duration: .zero, answeredAt: noon)
    let finding = Checkup.clockFinding([reply], now: { noon.addingTimeInterval(seconds) })
    #expect(finding.verdict == .fail)
    #expect(finding.sentence.contains(sentence))
    #expect(Checkup.clockFinding([reply], now: { noon.addingTimeInterval(2) }).verdict == .ok)
    // A played store's clock stands where it was put.
    let played = Checkup.clockFinding([reply], isApple: false, now: { noon.addingTimeInterval(seconds) })
    #expect(played.verdict == .warning)
    #expect(played.sentence.contains(sentence))
  }

  @Test func `a secret that does not look like one of App Store Connect's is told, and not printed`() throws {
    var configuration = SampleConfiguration()
    configuration.sections["app_store"]?["shared_secret"] = "my-password"
    let checkup = Checkup(configuration: try configuration.load())
    let reply = Checkup.Reply(environment: .production, outcome: .status(21002), duration: .zero)
    let finding = checkup.secretFinding(reply, .noReceipt, Secret("my-password"))
    #expect(finding.sentence.contains("is not of 32 hexadecimal digits"))
    #expect(!finding.sentence.contains("my-password"))
  }

  // MARK: - The running service

  @Test func `the doctor tells the running service's state, and how to mend a refused secret`() async throws {
    try await SimulatedStore.run { store in
      var apple = store.apple
      apple.sharedSecret = "not-the-secret"
      let admin = "{ port: 0 }"
      for settings in [Settings(), Settings(server: ["admin": admin])] {
        try await RunningService.run(apple: apple, settings: settings) { service in
          let port = service.adminPort ?? service.port
          let server = service.adminPort == nil ? ["port": "\(port)"] : ["admin": "{ port: \(port) }"]
          let checkup = try Deployment(.unreachable, Settings(server: server)).checkup()
          let well = await checkup.serviceFindings()
          #expect(texts(well, "service") == ["ok: answers at http://127.0.0.1:\(port)/readyz, and is ready"])
          #expect(well.count == 1, "\(well)")

          let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
          #expect(try await service.validate(receipt).status == 202)
          let findings = await checkup.run()
          #expect(texts(findings, "service") == ["fail: answers at http://127.0.0.1:\(port)/readyz, and is not ready"])
          #expect(
            texts(findings, "app_store.shared_secret").contains {
              $0.hasPrefix("fail: the running service says: Apple refuses it (21004)")
            }, "\(findings)")
          #expect(CheckupReport(findings).status == .fail)
        }
      }
    }
  }

  @Test func `without a service, and where another program listens, nothing is made up`() async throws {
    let free = try ReservedPort()
    let nobody = try Deployment(.unreachable, Settings(server: ["port": "\(free.number)"])).checkup()
    #expect(await nobody.serviceFindings() == [])
    let anyPort = try Deployment(.unreachable).checkup()
    #expect(await anyPort.serviceFindings() == [])
    try await WebhookReceiver.running { other in
      let checkup = try Deployment(.unreachable, Settings(server: ["port": "\(other.port)"])).checkup()
      let findings = await checkup.serviceFindings()
      #expect(
        texts(findings, "service") == [
          "warning: what answers at http://127.0.0.1:\(other.port)/readyz, with HTTP 200, does not say how it fares"
        ])
    }
  }

  @Test func `each trouble of the running service is a finding, and what passes by itself is a warning`() {
    var found = Readiness(
      status: "unready", ledger: "failed", appStore: "server_api_key_rejected",
      profileStore: "misconfigured: 42501\u{1B}[2J", downgradeBrake: "engaged", withheldByRules: 3, clock: "off",
      userKeys: "unavailable: no answer")
    let fails = Checkup.findings(of: found)
    #expect(
      fails.map { "\($0.verdict.rawValue) \($0.subject)" } == [
        "fail ledger", "fail app_store.server_api", "fail profile_store", "warning revalidation", "warning catalog",
        "fail clock", "fail auth.jwt",
      ])
    #expect(!fails.contains { $0.sentence.contains("\u{1B}") })
    (found.ledger, found.appStore, found.profileStore) = ("ok", "unavailable", "unavailable: timed_out")
    (found.downgradeBrake, found.withheldByRules, found.clock, found.userKeys) = (
      "released", 0, "ok", "stale: no answer"
    )
    let passing = Checkup.findings(of: found)
    #expect(passing.map(\.subject) == ["app_store", "profile_store", "auth.jwt"])
    #expect(passing.allSatisfy { $0.verdict == .warning })
    (found.appStore, found.profileStore, found.userKeys) = ("answering", "ok", "ok")
    found.outbox = Readiness.Outbox(depth: 2, ageSeconds: 60, lastError: "23505", missing: 0)
    #expect(Checkup.findings(of: found).map(\.subject) == ["profile_store"])
    found.outbox = nil
    #expect(Checkup.findings(of: found) == [])
  }

  // MARK: - Certificates and limits

  @Test func `the server's certificate is told about before it ends and after`() throws {
    let authority = try TestCertificateAuthority()
    let end = noon.addingTimeInterval(30 * 86_400)
    let directory = try TemporaryDirectory()
    let identity = try authority.serverIdentity(validUntil: end)
    let certificate = try directory.write("server.pem", identity.certificatePEM)
    let key = try directory.write("server.key", identity.privateKeyPEM)
    let configuration = try SampleConfiguration()
      .setting("server.tls", "{ certificate_file: \"\(certificate)\", key_file: \"\(key)\" }").load()
    for (days, verdict, sentence) in [
      (0, Finding.Verdict.ok, "counts until 2024-07-15"), (20, .warning, "ends soon"), (31, .fail, "ended at"),
      (-20_000, .fail, "on only"),
    ] {
      let now = noon.addingTimeInterval(Double(days) * 86_400)
      let findings = Checkup(configuration: configuration, now: { now }).serverFindings()
      #expect(findings.map(\.verdict) == [verdict])
      #expect(findings.first?.sentence.contains(sentence) == true, "\(findings)")
    }
    _ = try directory.write("server.key", authority.serverIdentity().privateKeyPEM)
    let findings = Checkup(configuration: configuration, now: { noon }).serverFindings()
    #expect(findings.map(\.verdict) == [.fail])
    #expect(findings.first?.sentence.contains("not that of the first certificate") == true)
  }

  @Test func `keys of users' tokens that cannot be fetched are told`() async throws {
    let set = TokenMint.set([TokenMint.jwk(P256.Signing.PrivateKey().publicKey, id: "one")])
    try await WebhookReceiver.running { server in
      server.publish(set)
      let deployment = try Deployment(.unreachable, Settings(jwt: ["jwks_url": server.keySetURL]))
      let found = await deployment.checkup().callerFindings()
      #expect(found.map(\.verdict) == [.ok, .ok])
      server.publish("<html>")
      let missing = await deployment.checkup().callerFindings()
      #expect(missing.map(\.verdict) == [.ok, .fail])
      #expect(missing.last?.sentence.contains("is auth.jwt.jwks_url right?") == true)
      server.publish(#"{"keys":[]}"#)
      let none = await deployment.checkup().callerFindings()
      #expect(none.map(\.verdict) == [.ok, .fail])
      #expect(none.last?.sentence.contains("signs with its JWT secret, set auth.jwt.secret_file") == true)
    }
    let deployment = try Deployment(.unreachable, Settings(jwt: ["secret": TokenMint.secret]))
    #expect(await deployment.checkup().callerFindings().map(\.verdict) == [.ok, .ok])
  }

  @Test func `authorities that have ended, or are none, are told`() throws {
    let authority = try TestCertificateAuthority()
    let directory = try TemporaryDirectory()
    let old = try directory.write(
      "old.pem", authority.serverIdentity(validUntil: Date(timeIntervalSince1970: 1_600_000_000)).certificatePEM)
    let mixed = try directory.write(
      "mixed.pem", authority.rootPEM + "\n" + String(contentsOfFile: old, encoding: .utf8))
    let junk = try directory.write("junk.pem", "nothing")
    for (file, verdict) in [(authority.caFile, Finding.Verdict.ok), (mixed, .warning), (old, .fail), (junk, .fail)] {
      let configuration = try SampleConfiguration().setting("app_store.ca_file", "\"\(file)\"").load()
      let findings = Checkup(configuration: configuration, now: { noon }).authorityFindings()
      #expect(findings.first { $0.subject == "app_store.ca_file" }?.verdict == verdict, "\(findings)")
      #expect(findings.first { $0.subject == "app_store.roots" }?.verdict == .ok)
    }
    let configuration = try SampleConfiguration().setting("app_store.roots", "[\"\(junk)\"]").load()
    let findings = Checkup(configuration: configuration, now: { noon }).authorityFindings()
    #expect(findings.first { $0.subject == "app_store.roots" }?.verdict == .fail)
  }

  @Test func `too few open files are told`() throws {
    let configuration = try SampleConfiguration().load()
    #expect(Checkup(configuration: configuration, openFileLimit: 20_000).limitFindings().map(\.verdict) == [.ok])
    let few = Checkup(configuration: configuration, openFileLimit: 1_024).limitFindings()
    #expect(few.map(\.verdict) == [.ok, .warning])
    #expect(few.last?.sentence.contains("LimitNOFILE") == true)
  }

  // MARK: - Ledger

  @Test(.ofTheFile) func `the catalog is compared with what subscribers have, beside a running service`() async throws {
    try await SimulatedStore.run { store in
      let deployment = try Deployment(store.apple)
      #expect(await deployment.checkup().catalogFindings() == [])
      try await RunningService.run(apple: store.apple, directory: deployment.directory.url) { service in
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
        #expect(try await service.validate(receipt).status == 200)
        let well = await deployment.checkup().catalogFindings()
        #expect(well.map(\.verdict) == [.ok], "\(well)")

        var settings = Settings()
        settings.products["com.example.app.pro.monthly"] = nil
        settings.products["com.example.app.pro.monthlyy"] = "{ tier: pro }"
        let loss =
          "1 of com.example.app.pro.monthly is kept, and it is not in the catalog; did you mean com.example.app.pro.monthlyy?"
        for (accepted, verdict) in [("[]", Finding.Verdict.fail), ("[com.example.app.pro.monthly]", .warning)] {
          settings.catalog["accept_loss"] = accepted
          let yaml = settings.yaml(apple: store.apple, directory: deployment.directory.url)
          let other = try ServiceConfiguration.load(
            file: try deployment.directory.write("other.yaml", yaml), environment: [:])
          let findings = await Checkup(configuration: other, now: { noon }).catalogFindings()
          #expect(findings.map(\.verdict) == [verdict])
          #expect(findings.first?.sentence.contains(loss) == true, "\(findings)")
        }
      }
    }
  }

  @Test(.ofTheFile) func `a product that does not renew, and is catalogued as a subscription, is named`() async throws {
    var wrong = Settings()
    wrong.products["com.example.app.pro.season"] = "{ tier: pro }"
    let settings = wrong
    try await simulated(settings) { store, deployment in
      try await RunningService.run(apple: store.apple, settings: settings, directory: deployment.directory.url) {
        service in
        for (number, scenario) in [Scenario.nonRenewing, .renewing, .expiredVoluntary].enumerated() {
          let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number)).receiptData
          #expect(try await service.validate(receipt, user: "user-\(number)").status == 200)
        }
        #expect(
          texts(await deployment.checkup().catalogFindings(), "catalog") == [
            "ok: everybody in the ledger keeps their access (subscribers: 1)",
            "warning: Apple names no end of com.example.app.pro.season: if it does not renew, it needs kind: non_renewing and "
              + "a period",
          ])
        let checkup = Checkup(
          configuration: try ServiceConfiguration.load(
            file: try deployment.directory.write(
              "mended.yaml", Settings().yaml(apple: store.apple, directory: deployment.directory.url)),
            environment: [:]),
          now: { noon })
        #expect(await checkup.catalogFindings().map(\.verdict) == [.ok])
      }
    }
  }

  @Test func `a ledger is sound, damaged, or something else`() async throws {
    let deployment = try Deployment(.unreachable)
    let ledger = try await Ledger.open(path: deployment.ledger, onFatal: { _ in })
    #expect(
      texts(await deployment.checkup().ledgerFindings(), "ledger").first
        == "ok: the service has it open: \(deployment.ledger)")
    await ledger.close()
    #expect(
      texts(await deployment.checkup().ledgerFindings(), "ledger").first
        == "ok: \(deployment.ledger) can be opened, and its structure is sound")

    // Every page but the first.
    var bytes = try Data(contentsOf: URL(filePath: deployment.ledger))
    bytes.replaceSubrange(8_192..<bytes.count, with: Data(repeating: 0xa5, count: bytes.count - 8_192))
    try bytes.write(to: URL(filePath: deployment.ledger))
    let damaged = texts(await deployment.checkup().ledgerFindings(), "ledger").first ?? ""
    #expect(damaged.hasPrefix("fail: ") && damaged.contains("restore a backup"), "\(damaged)")

    try Data("Dear diary, this is no ledger at all.".utf8).write(to: URL(filePath: deployment.ledger))
    let other = texts(await deployment.checkup().ledgerFindings(), "ledger").first ?? ""
    #expect(other.hasPrefix("fail: ") && other.contains("is not a Countersign ledger"), "\(other)")
  }

  @Test func `a ledger that others may read is told, with what to do`() async throws {
    let deployment = try Deployment(.unreachable)
    await (try await Ledger.open(path: deployment.ledger, onFatal: { _ in })).close()
    for (mode, reported) in [
      (0o644, "fail: every user of this machine may read or write"), (0o640, "warning: the group may read or write"),
    ] {
      try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: deployment.ledger)
      let lines = texts(await deployment.checkup().ledgerFindings(), "ledger").filter { $0.contains("chmod 600") }
      // Left by the look at the file, with its mode.
      for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: deployment.ledger + suffix) }
      #expect(lines.count == 1)
      #expect(
        lines.allSatisfy { $0.hasPrefix(reported) && $0.contains("(mode \(String(mode, radix: 8)))") }, "\(lines)")
    }
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: deployment.ledger)
    #expect(!texts(await deployment.checkup().ledgerFindings(), "ledger").contains { $0.contains("chmod") })
  }

  @Test func `a directory that is not there is told`() async throws {
    let configuration = try SampleConfiguration().setting("ledger.path", "/no/such/directory/ledger.sqlite").load()
    let findings = await Checkup(configuration: configuration).ledgerFindings()
    #expect(findings.map(\.verdict) == [.fail])
    #expect(findings.first?.sentence.contains("create it") == true)
  }

  // MARK: - Profile store

  @Test(
    arguments: [
      (ProfileStoreDouble.Mode.unauthorized, "profile_store.key"), (.http503, "recorded meanwhile"),
      (.html520, "gateway"),
    ])
  func `a trouble of the profile store's is told`(mode: ProfileStoreDouble.Mode, sentence: String) async throws {
    try await ProfileStoreDouble.running { profiles in
      profiles.set(mode)
      let deployment = try Deployment(.unreachable, Settings(profileStore: .store(profiles.url)))
      let findings = await deployment.checkup().profileStoreFindings()
      #expect(findings.map(\.verdict) == [.fail])
      #expect(findings.first?.sentence.contains(sentence) == true, "\(findings)")
    }
  }

  // MARK: - The command

  private struct Run: Sendable {
    var code: Int32
    var output: String

    var report: Report { get throws { try JSONDecoder().decode(Report.self, from: Data(output.utf8)) } }
  }

  private struct Report: Decodable {
    struct Line: Decodable {
      var verdict: String
      var sentence: String
    }

    var status: String
    var findings: [Line]
  }

  private func doctor(_ arguments: [String]) async throws -> Run {
    let ending = try await ChildProcess.run(
      ServiceProcess.program("countersign"), ["doctor"] + arguments, environment: ServiceProcess.environment)
    return Run(code: ending.code, output: ending.output)
  }

  @Test func `the command ends with 0, 1 or 78, in words and in JSON`() async throws {
    // The simulator's clock is the machine's, as the command's is.
    try await SimulatedStore.run(at: Date()) { store in
      let deployment = try Deployment(store.apple)
      let file = deployment.directory.path + "/countersign.yaml"
      let receipt = try deployment.directory.write(
        "receipt.b64", store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData)
      let well = try await doctor(["--config", file, "--receipt", receipt])
      #expect(well.code == 0, "\(well.output)")
      #expect(well.output.contains("ok       app_store.shared_secret"))
      #expect(try await doctor(["--config", file, "--json"]).report.status == "ok")

      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let trouble = try await doctor(["--config", file, "--json"])
      #expect(trouble.code == 1)
      #expect(try trouble.report.status == "fail")
      #expect(try trouble.report.findings.contains { $0.verdict == "fail" && $0.sentence.contains("HTTP 503") })

      let wrong = try deployment.directory.write("wrong.yaml", "server: { prot: 1 }\n")
      let refused = try await doctor(["--config", wrong])
      #expect(refused.code == 78)
      #expect(refused.output.contains("did you mean server.port?"))
      let refusedJSON = try await doctor(["--config", wrong, "--json"])
      #expect(refusedJSON.code == 78)
      #expect(try refusedJSON.report.status == "configuration")
    }
  }
}
