/** Tests overwrite released reads with this byte, so that any later use of them shows. */
const POISON = 0x21

let isPoisoned = false

/** Allocates memory that many connections read into, one after the other. The bytes of a read are valid only until its callback returns. */
export function newReadBuffer(bytes: number): Buffer {
  return Buffer.allocUnsafeSlow(bytes)
}

/** The owner of a read buffer calls this when the receiver of its first `length` bytes is done with them. */
export function releaseRead(buffer: Uint8Array, length: number): void {
  if (isPoisoned) buffer.fill(POISON, 0, length)
}

/** For tests: from now on every read is overwritten once it is released, as another connection's next read would do. */
export function poisonReads(): void {
  isPoisoned = true
}
