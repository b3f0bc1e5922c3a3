// `Date`, for every file of the wire types and for whoever uses them. Only Linux has FoundationEssentials.
#if canImport(FoundationEssentials)
  @_exported public import struct FoundationEssentials.Date
#else
  @_exported public import struct Foundation.Date
#endif
