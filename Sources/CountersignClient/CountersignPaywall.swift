#if canImport(SwiftUI) && canImport(Observation)
  import CountersignAPI
  import Foundation
  import SwiftUI

  /// A paywall: the current offering with the App Store's prices and periods, features by plan, restore, Terms and Privacy.
  ///
  ///     .sheet(isPresented: $showsPaywall) {
  ///       CountersignPaywall(
  ///         client, title: "Family Pro", source: "settings", features: ["children": "Children", "filters": "Filters"],
  ///         terms: termsURL, privacy: privacyURL)
  ///     }
  ///
  /// It follows the system's text sizes, colours and direction. For another look copy this file: `PaywallModel` has the rest.
  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  public struct CountersignPaywall: View {
    private let title: String
    private let features: KeyValuePairs<String, String>
    private let terms: URL
    private let privacy: URL
    @State private var model: PaywallModel
    @Environment(\.dismiss) private var dismiss

    /// - Parameters:
    ///   - features: those to show, in this order, with their names for people.
    ///   - source: where it was opened, for the events.
    ///   - experiment: one whose variants are named after offerings.
    public init(
      _ client: CountersignClient, title: String, source: String, features: KeyValuePairs<String, String>, terms: URL,
      privacy: URL, experiment: String? = nil, words: PaywallWords = PaywallWords()
    ) {
      self.title = title
      self.features = features
      self.terms = terms
      self.privacy = privacy
      _model = State(
        initialValue: PaywallModel(client, source: source, experiment: experiment, words: words))
    }

    public var body: some View {
      ScrollView {
        VStack(alignment: .leading, spacing: 16) {
          Text(title).font(.largeTitle.bold()).accessibilityAddTraits(.isHeader)
          ForEach(model.packages, id: \.name) { package in
            Button {
              Task { await model.buy(package.productID) }
            } label: {
              label(of: package)
            }
            .buttonStyle(.bordered)
            .disabled(model.isBusy)
            .accessibilityElement(children: .combine)
            .accessibilityAddTraits(.isButton)
          }
          if model.isBusy { ProgressView() }
          if let message = model.message {
            Text(message).accessibilityAddTraits(.updatesFrequently)
          }
          if model.phase == .failed, model.packages.isEmpty {
            Button(model.words.retry) { Task { await model.load() } }
          }
          Text(model.words.renewal).font(.footnote).foregroundStyle(.secondary)
          Button(model.words.restore) { Task { await model.restore() } }.disabled(model.isBusy)
          Link(model.words.terms, destination: terms)
          Link(model.words.privacy, destination: privacy)
          Button(model.words.close) { dismiss() }
        }
        .frame(maxWidth: .infinity, alignment: .leading)
        .padding()
      }
      .task { await model.load() }
      .onChange(of: model.phase) { _, phase in
        if phase == .success { dismiss() }
      }
      .onDisappear { Task { await model.dismiss() } }
    }

    private func label(of package: Offering.Package) -> some View {
      VStack(alignment: .leading, spacing: 4) {
        Text(package.product?.displayName ?? package.plan?.name ?? package.productID).font(.headline)
        Text(package.priceLine(model.words) ?? "")
        ForEach(package.plan?.featureLines(features, model.words) ?? [], id: \.self) { line in
          Text(line).font(.subheadline).foregroundStyle(.secondary)
        }
      }
      .multilineTextAlignment(.leading)
      .frame(maxWidth: .infinity, alignment: .leading)
    }
  }

  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  extension View {
    /// Shows an upgrade prompt as an alert.
    ///
    /// - Parameters:
    ///   - title: the feature's name for people.
    ///   - see: the button's word for the plan's name; `dismiss` that of the other.
    ///   - openPaywall: called when the user wants the plan.
    @MainActor public func upgradePrompt(
      _ prompt: UpgradePrompt, title: String, see: @escaping (String) -> String = { "See \($0)" },
      dismiss: String = "Not now", openPaywall: @escaping () -> Void
    ) -> some View {
      @Bindable var prompt = prompt
      return alert(title, isPresented: $prompt.isShown) {
        if let plan = prompt.plan {
          Button(see(plan.name)) {
            Task { await prompt.accept() }
            openPaywall()
          }
        }
        Button(dismiss, role: .cancel) { Task { await prompt.dismiss() } }
      }
    }
  }

  /// The name of the plan that has a feature; nothing where the user may use it, and while that is not known.
  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  public struct PlanBadge: View {
    private let access: AccessModel
    @State private var prompt: UpgradePrompt

    public init(_ access: AccessModel, feature: String) {
      self.access = access
      _prompt = State(initialValue: UpgradePrompt(access.client, feature: feature))
    }

    public var body: some View {
      Group {
        if !access.isAllowed(prompt.feature, ifUnknown: true), let plan = prompt.plan {
          Text(plan.name).font(.caption.bold()).padding(.horizontal, 8).background(.tint, in: Capsule())
            .foregroundStyle(.white)
        }
      }
      .task(id: access.state) { await prompt.load() }
    }
  }
#endif
