import Testing

@testable import Resilience

@Suite struct QueueForecastTests {
  private let start = ContinuousClock.now

  private func forecast(slots: Int, _ milliseconds: Int) -> QueueForecast {
    var forecast = QueueForecast(slots: slots)
    forecast.note(.milliseconds(milliseconds), at: start)
    return forecast
  }

  @Test func `with nothing known everything is possible`() {
    let forecast = QueueForecast(slots: 1)
    #expect(forecast.answer(at: start, ahead: 1_000_000) == start)
    #expect(forecast.answer(sentAt: start) == start)
  }

  @Test(arguments: [(0, 302), (63, 600), (127, 900), (1023, 5100)])
  func `the wait is what those ahead need, and then the call's own time`(_ ahead: Int, _ milliseconds: Int) {
    let answer = forecast(slots: 64, 300).answer(at: start, ahead: ahead) - start
    #expect(answer >= .milliseconds(milliseconds))
    #expect(answer < .milliseconds(milliseconds + 5))
  }

  @Test func `slots that nobody gives back are not expected soon`() {
    let forecast = forecast(slots: 64, 300)
    #expect(forecast.answer(at: start + .seconds(4), ahead: 0) == start + .milliseconds(8300))
  }

  @Test func `a burst after a quiet night does not pay for the night`() {
    var forecast = forecast(slots: 64, 300)
    let morning = start + .seconds(30_000)
    for _ in 0..<64 { forecast.noteStart(at: morning) }
    #expect(forecast.wait(at: morning, ahead: 0) < .milliseconds(5))
    #expect(forecast.wait(at: morning + .seconds(4), ahead: 0) == .seconds(4))
  }

  @Test func `the forecast learns that calls became slow, and that they are quick again`() {
    var forecast = forecast(slots: 64, 200)
    for _ in 0..<16 { forecast.note(.seconds(10), at: start) }
    #expect(forecast.answer(sentAt: start) > start + .seconds(8))
    for _ in 0..<32 { forecast.note(.milliseconds(200), at: start) }
    #expect(forecast.answer(sentAt: start) < start + .milliseconds(400))
  }
}
