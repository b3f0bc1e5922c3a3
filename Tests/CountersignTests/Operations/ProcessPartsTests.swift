import Testing

@testable import Countersign

/// The kernel's word on a process.
@Suite struct ProcessPartsTests {
  @Test(arguments: [
    ("Name:\tcountersign\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n", 2),
    ("Cpus_allowed:\t1\n", 1),
    ("Cpus_allowed:\tffffffff,ffffffff\n", 64),
    ("Cpus_allowed:\t00000001,80000000,0000000f\n", 6),
  ])
  func `the processors that a process may run on are counted`(status: String, count: Int) {
    #expect(ProcessorCount.allowed(in: status) == count)
  }

  @Test(arguments: ["", "Name:\tcountersign\n", "Cpus_allowed:\t0\n", "Cpus_allowed_list:\t0-1\n"])
  func `no count is made up where the kernel does not say`(status: String) {
    #expect(ProcessorCount.allowed(in: status) == nil)
  }

  @Test func `the running process is allowed a processor`() {
    #expect((ProcessorCount.allowed ?? 0) > 0)
  }

  @Test func `the program's code is found, and nothing else`() {
    let mappings = """
      55d000000000-55d000100000 r--p 00000000 08:01 1311 /usr/local/bin/countersign
      55d000100000-55d000900000 r-xp 00100000 08:01 1311 /usr/local/bin/countersign
      55d000900000-55d000a00000 rw-p 00900000 08:01 1311 /usr/local/bin/countersign
      55d001000000-55d001200000 rw-p 00000000 00:00 0    [heap]
      7f0000000000-7f0000200000 r-xp 00000000 08:01 2222 /usr/lib/libc.so.6
      7f0000300000-7f0000300000 r-xp 00000000 08:01 1311 /usr/local/bin/countersign
      7f0000400000-zz r-xp 00000000 08:01 1311 /usr/local/bin/countersign
      7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0    [vdso]
      """
    #expect(
      ProgramPages.code(of: "/usr/local/bin/countersign", in: mappings) == [0x55d0_0010_0000..<0x55d0_0090_0000])
    #expect(ProgramPages.code(of: "/usr/local/bin/other", in: mappings).isEmpty)
    // A path may have spaces.
    #expect(
      ProgramPages.code(of: "/opt/our own/countersign", in: "10-20 r-xp 0 08:01 7    /opt/our own/countersign\n")
        == [0x10..<0x20])
  }
}
