import CoreMetrics
import HTTPTypes
import Hummingbird

/// Counts and times requests.
///
/// Labels are bounded: a route's template (never a path, which may hold a user ID), one of the methods that exist, a
/// status of ours.
final class HTTPMetrics: Sendable {
  private struct Answer: Hashable {
    var route: String
    /// `nil`: one that nobody knows.
    var method: HTTPRequest.Method?
    var code: Int
  }

  /// The label for a request without a route.
  private static let noRoute = "none"
  private static let methods: Set<HTTPRequest.Method> = [.get, .head, .post, .put, .patch, .delete, .options]

  private let answers: Handles<Answer, Counter>
  private let durations: Handles<String, Timer>
  private let inFlight: Meter

  init(_ factory: any MetricsFactory) {
    answers = Handles { answer in
      Counter(
        .httpRequests,
        [("route", answer.route), ("method", answer.method?.rawValue ?? "other"), ("code", "\(answer.code)")],
        in: factory)
    }
    durations = Handles { Timer(.httpRequestDuration, [("route", $0)], in: factory) }
    inFlight = Meter(label: ServiceMetric.httpRequestsInFlight.rawValue, factory: factory)
    inFlight.set(0)
    // Those that alerts go by: see `LabelledCounter`.
    for route in ["/v1/notifications/app-store", "/v1/notifications/revenuecat"] {
      for code in [200, 500, 503] { _ = answers[Answer(route: route, method: .post, code: code)] }
    }
  }

  func began() { inFlight.increment() }

  func answered(_ response: Response, _ method: HTTPRequest.Method, route: String, after duration: Duration) {
    inFlight.decrement()
    let route = route == ServiceRequestContext.noRoute ? Self.noRoute : route
    // A peer may invent any number of methods.
    let known = Self.methods.contains(method) ? method : nil
    answers[Answer(route: route, method: known, code: response.status.code)].increment()
    durations[route].record(duration)
  }
}
