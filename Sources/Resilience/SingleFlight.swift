import Synchronization

/// Shares one answer among all who ask the same question at the same moment.
///
///     caller 1 ──ask──▶ ┌───────────┐
///     caller 2 ──join─▶ │ one flight │ ──▶ the same answer for all three
///     caller 3 ──join─▶ └───────────┘
///
/// The flight belongs to nobody in particular: it goes on when the caller who began it is cancelled, and is cancelled
/// when the last one is. It runs where that caller does (`PreferredExecutor`).
package final class SingleFlight<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Flight {
    var number: Int
    var task: Task<Value, Never>
    var waiting: Int
  }

  private struct State {
    var flights: [Key: Flight] = [:]
    var begun = 0
  }

  private let state = Mutex(State())

  package init() {}

  /// Joins the flight for this key, or begins one.
  package func run(_ key: Key, _ operation: @escaping @Sendable () async -> Value) async -> Value {
    let (number, task) = state.withLock { state in
      if let flight = state.flights[key] {
        state.flights[key]?.waiting += 1
        return (flight.number, flight.task)
      }
      state.begun += 1
      let task = Task(executorPreference: PreferredExecutor.current) { await operation() }
      state.flights[key] = Flight(number: state.begun, task: task, waiting: 1)
      return (state.begun, task)
    }
    let value = await withTaskCancellationHandler {
      await task.value
    } onCancel: {
      leave(key, number)
    }
    // A later caller asks again: this answer belongs to an earlier moment.
    state.withLock { state in
      if state.flights[key]?.number == number { state.flights[key] = nil }
    }
    return value
  }

  func waiting(for key: Key) -> Int { state.withLock { $0.flights[key]?.waiting ?? 0 } }

  private func leave(_ key: Key, _ number: Int) {
    let abandoned: Task<Value, Never>? = state.withLock { state in
      guard var flight = state.flights[key], flight.number == number else { return nil }
      flight.waiting -= 1
      state.flights[key] = flight.waiting > 0 ? flight : nil
      return flight.waiting > 0 ? nil : flight.task
    }
    abandoned?.cancel()
  }
}

/// The executor that a task prefers, for the tasks that it begins and that outlive it: those do not inherit the preference
/// (SE-0417).
package enum PreferredExecutor {
  /// `nil` stands for Swift's own threads.
  @TaskLocal package static var current: (any TaskExecutor)?
}
