interface Reader<Result> {
  push(bytes: Uint8Array, from: number, to: number): void
  end(): Result
}

/** What new readers make of a text in pieces of every size, each in the memory of the one before, which holds something else in between. */
export function* inReusedMemory<Result>(text: string, newReader: () => Reader<Result>): Iterable<Result> {
  const bytes = Buffer.from(text)
  const shared = Buffer.alloc(bytes.length)
  for (let size = 1; size <= bytes.length; size++) {
    const reader = newReader()
    for (let at = 0; at < bytes.length; at += size) {
      const length = bytes.copy(shared, 0, at, at + size)
      reader.push(shared, 0, length)
      shared.fill('!')
    }
    yield reader.end()
  }
}
