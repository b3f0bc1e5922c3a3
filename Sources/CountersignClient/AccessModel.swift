#if canImport(Observation)
  import Observation

  /// The state for SwiftUI: a view that reads it is drawn again when it changes.
  ///
  ///     struct Filters: View {
  ///       let access: AccessModel
  ///
  ///       var body: some View {
  ///         if access.isAllowed("filters") { FilterView() } else { LockedView() }
  ///       }
  ///     }
  ///
  /// Make it where the client is made, and keep it beside the client. `@State` in a view keeps the first one, also when the user
  /// has changed: such a view needs `.id(user)`.
  @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
  @MainActor @Observable public final class AccessModel {
    public private(set) var state: AccessState
    /// For purchases, restore and the rest.
    public let client: CountersignClient
    @ObservationIgnored private var reader: Task<Void, Never>?

    public init(_ client: CountersignClient) {
      self.client = client
      state = client.state
      reader = Task { [weak self] in
        for await state in client.access {
          guard let self else { return }
          self.state = state
        }
      }
    }

    deinit { reader?.cancel() }

    /// As `CountersignClient.isAllowed(_:ifUnknown:)`, and the view is drawn again when the answer may have changed.
    public func isAllowed(_ feature: String, ifUnknown: Bool = false) -> Bool {
      // Read, so that Observation sees it; the answer is the client's, which also follows the clock.
      _ = state
      return client.isAllowed(feature, ifUnknown: ifUnknown)
    }
  }
#endif
