/** Something that takes 32-bit words in turn. */
export interface WordSink {
  word(word: number): void
}

/**
 * Feeds a text into a hash so that no two sequences of texts feed the same words: its length, then its UTF-16 code
 * units, two a word.
 */
export function encodeText(sink: WordSink, text: string): void {
  const length = text.length
  sink.word(length)
  let i = 0
  for (; i + 1 < length; i += 2) sink.word((text.charCodeAt(i) << 16) | text.charCodeAt(i + 1))
  if (i < length) sink.word(text.charCodeAt(i))
}

/** A counter's identity, led by its number of texts: what follows it, the values, cannot be taken for a part of it. */
export function encodeIdentity(sink: WordSink, identity: readonly string[]): void {
  sink.word(identity.length)
  for (const text of identity) encodeText(sink, text)
}
