/** What tests overwrite a read with: it shows wherever it does not belong. */
const POISON = 0x21

let isPoisoned = false

/** Memory that many connections read into, one after the other. What a read brought belongs to whoever gets it until the callback returns. */
export function newReadBuffer(bytes: number): Buffer {
  return Buffer.allocUnsafeSlow(bytes)
}

/** To be called by the owner of a read buffer when whoever got its first `length` bytes is done with them. */
export function releaseRead(buffer: Uint8Array, length: number): void {
  if (isPoisoned) buffer.fill(POISON, 0, length)
}

/** For tests: from now on every read is overwritten once it is released, as another connection's next read would do. */
export function poisonReads(): void {
  isPoisoned = true
}
