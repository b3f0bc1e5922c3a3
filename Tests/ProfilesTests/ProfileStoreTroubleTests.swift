import Profiles
import Testing

@Suite struct ProfileStoreTroubleTests {
  @Test func `trouble reads as a sentence with its code`() {
    let trouble = ProfileStoreTrouble(code: "timed_out", sentence: "The profile store did not answer in time")
    #expect("\(trouble)" == "The profile store did not answer in time (timed_out)")
  }
}
