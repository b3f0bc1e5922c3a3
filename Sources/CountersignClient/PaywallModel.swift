#if canImport(Observation)
  import CountersignAPI
  import Foundation
  import Observation

  /// The states of a paywall, for any view. It reports the usual events.
  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @MainActor @Observable public final class PaywallModel {
    public enum Phase: String, Hashable, Sendable {
      case idle
      case loadingOfferings = "loading_offerings"
      case purchasing, verifying, success, failed, cancelled
    }

    public private(set) var phase = Phase.idle
    /// The packages of the current offering that the store sells.
    public private(set) var packages: [Offering.Package] = []
    /// The product that is being bought, or was the last one.
    public private(set) var productID: String?
    /// A sentence for the user. A purchase that waits for an approval has one, and has not failed.
    public private(set) var message: String?
    public let words: PaywallWords

    @ObservationIgnored private let client: CountersignClient
    @ObservationIgnored private let source: String
    @ObservationIgnored private let experiment: String?
    @ObservationIgnored private let opened: Date
    @ObservationIgnored private var variant: String?

    /// - Parameters:
    ///   - client: that of the signed-in user.
    ///   - source: where it was opened, for the events.
    ///   - experiment: one whose variants are named after offerings.
    ///   - words: English by default.
    public init(
      _ client: CountersignClient, source: String, experiment: String? = nil, words: PaywallWords = PaywallWords()
    ) {
      self.client = client
      self.source = source
      self.experiment = experiment
      self.words = words
      opened = client.options.now()
    }

    public var isBusy: Bool { [.loadingOfferings, .purchasing, .verifying].contains(phase) }

    public func load() async {
      guard !isBusy else { return }
      set(.loadingOfferings)
      do {
        let offerings = try await client.offerings(experiment: experiment)
        packages = (offerings.current?.packages ?? []).filter { $0.product != nil }
        variant = offerings.variant
        set(packages.isEmpty ? .failed : .idle, packages.isEmpty ? words.away : nil)
        await tell(.paywallViewed)
        if let experiment, let variant { try? await client.noteExposure(to: variant, of: experiment) }
      } catch {
        set(.failed, error as? CountersignError == .signedOut ? words.error(.signedOut) : words.away)
      }
    }

    public func buy(_ productID: String) async {
      guard !isBusy else { return }
      self.productID = productID
      set(.purchasing)
      let product = ["product": EventValue.text(productID)]
      await tell(.planSelected, product)
      await tell(.purchaseInitiated, product)
      do {
        try await client.record(productID) { await self.verify() }
        let state = try? await client.refreshAfterPost()
        set(.success, state == nil ? words.recorded : words.success)
        await tell(.purchaseCompleted, product)
      } catch let error as CountersignError {
        fail(error)
        if phase == .failed { await tell(.purchaseFailed, product.merging(["code": .text(error.word)]) { $1 }) }
        if phase == .cancelled { await tell(.purchaseCancelled, product) }
      } catch { set(.failed, words.away) }
    }

    public func restore() async {
      guard !isBusy else { return }
      productID = nil
      set(.verifying)
      await tell(.restoreInitiated)
      do {
        guard try await client.postOwned().posted > 0 else {
          _ = try await client.refreshAnew()
          return set(.failed, words.nothing)
        }
        _ = try? await client.refreshAfterPost()
        set(.success, words.restored)
        await tell(.restoreCompleted)
      } catch { fail(error as? CountersignError ?? .later(retryAfter: nil)) }
    }

    /// Call it when the view is closed.
    public func dismiss() async {
      guard phase != .success else { return }
      let spent = Int(client.options.now().timeIntervalSince(opened) * 1000)
      await tell(.paywallDismissed, ["timeSpentMs": .integer(spent)])
    }

    private func verify() { set(.verifying) }

    private func fail(_ error: CountersignError) {
      set(error == .cancelled ? .cancelled : error == .pending ? .idle : .failed, words.error(error))
    }

    private func set(_ phase: Phase, _ message: String? = nil) {
      self.phase = phase
      self.message = message
    }

    private func tell(_ name: EventName, _ properties: [String: EventValue] = [:]) async {
      var properties = properties
      properties["source"] = .text(source)
      if let variant { properties["variant"] = .text(variant) }
      await client.track(name, properties)
    }
  }

  /// A prompt where a limit is reached, with the plan that lifts it.
  ///
  ///     Button("Add a child") { Task { if await prompt.check() { add() } } }
  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @MainActor @Observable public final class UpgradePrompt {
    public let feature: String
    public var isShown = false
    /// The lowest plan that lifts the limit; `nil` where none does, and while it is not known.
    public private(set) var plan: PlansResponse.Plan?

    @ObservationIgnored private let client: CountersignClient

    public init(_ client: CountersignClient, feature: String) {
      self.client = client
      self.feature = feature
    }

    public var limit: Int? { client.state.access?.features[feature]?.limit }

    /// Whether the feature may be used. If not, the prompt is shown.
    ///
    /// - Parameter ifUnknown: the answer where the state is unknown.
    public func check(ifUnknown: Bool = false) async -> Bool {
      if client.isAllowed(feature, ifUnknown: ifUnknown) { return true }
      await tell(.limitReached)
      await show()
      return false
    }

    /// For a `consume` that throws `limit_reached`.
    public func show() async {
      await load()
      isShown = true
      await tell(.upgradePromptShown)
    }

    /// Asks for the plan, for a badge.
    public func load() async {
      guard let tier = client.state.access?.tier else { return plan = nil }
      plan = (try? await client.plans())?.plan(lifting: feature, above: tier)
    }

    /// The user wants the plan: show the paywall.
    public func accept() async {
      isShown = false
      await tell(.upgradePromptAccepted)
    }

    public func dismiss() async {
      isShown = false
      await tell(.upgradePromptDismissed)
    }

    private func tell(_ name: EventName) async {
      var properties: [String: EventValue] = ["feature": .text(feature)]
      if let limit { properties["limit"] = .integer(limit) }
      if let plan { properties["plan"] = .text(plan.tier) }
      await client.track(name, properties)
    }
  }
#endif
