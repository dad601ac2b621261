import { expect, test } from 'vitest'
import { RecordedBody } from '../../../test/support/proxy/recording-downstream.ts'
import type { BodyClaim } from './body-claims.ts'
import { collect } from './body-collection.ts'

const OPTIONS = { maxBytes: 100, idleTimeoutMs: 7, isEnforced: true }

/** Has room for so many bytes at first, and for more when it is granted. */
class Claim {
  bytes = 4
  isReleased = false
  isWatched = false
  grant: (() => void) | undefined
  onEnd = (): void => {}

  watch(): void {
    this.isWatched = true
  }

  note(): void {}

  grow(): boolean {
    return false
  }

  growLater(bytes: number, onGranted: () => void): void {
    this.grant = () => {
      this.bytes = bytes
      onGranted()
    }
  }

  complete(): void {}

  release(): void {
    this.isReleased = true
  }
}

test('nothing is read while a piece waits for memory, and the client may be silent meanwhile', async () => {
  const { source, claim, outcome } = collecting()
  source.reader!.onData(Buffer.from('abcd'))
  expect([source.isPaused, source.idleMs]).toEqual([false, 7])
  source.reader!.onData(Buffer.from('ef'))
  expect([source.isPaused, source.idleMs]).toEqual([true, 0])
  claim.grant!()
  expect([source.isPaused, source.idleMs]).toEqual([false, 7])
  source.reader!.onEnd()
  expect(await outcome).toEqual({ bytes: Buffer.from('abcdef'), isPartial: false })
  expect([source.reader, source.idleMs, claim.isReleased]).toEqual([undefined, 0, false])
})

test.each([true, false])('a claim is watched unless the whole body has arrived: %s', (isComplete) => {
  const [source, claim] = [new RecordedBody(), new Claim()]
  source.isComplete = isComplete
  void collect(source, claim as unknown as BodyClaim, OPTIONS)
  expect(claim.isWatched).toBe(!isComplete)
})

test('a piece that waits for memory may be overwritten meanwhile', async () => {
  const { source, claim, outcome } = collecting()
  const piece = Buffer.from('abcdef')
  source.reader!.onData(piece)
  piece.fill('!')
  source.reader!.onEnd()
  claim.grant!()
  expect(await outcome).toEqual({ bytes: Buffer.from('abcdef'), isPartial: false })
})

test('an end that comes while the last piece waits ends it when the piece has its memory', async () => {
  const { source, claim, outcome } = collecting()
  source.reader!.onData(Buffer.from('abcdef'))
  source.reader!.onEnd()
  claim.grant!()
  expect(await outcome).toEqual({ bytes: Buffer.from('abcdef'), isPartial: false })
})

test.each([
  ['in the middle', 'ab', false],
  ['while a piece waits for memory', 'abcdef', false],
  ['behind its end, while the last piece waits', 'abcdef', true],
])('a client that leaves %s leaves nothing behind', async (_, piece, hasEnded) => {
  const { source, claim, outcome } = collecting()
  source.reader!.onData(Buffer.from(piece))
  if (hasEnded) source.reader!.onEnd()
  source.reader!.onGone()
  expect([await outcome, claim.isReleased, source.reader]).toEqual([undefined, true, undefined])
})

test('a client that has left is not read from', async () => {
  const source = new RecordedBody()
  source.isGone = true
  const claim = new Claim()
  expect(await collect(source, claim as unknown as BodyClaim, OPTIONS)).toBeUndefined()
  expect([claim.isReleased, source.isPaused]).toEqual([true, true])
})

test('a mistake of ours ends it, and does not reach whoever gave the memory back', async () => {
  const { source, claim, outcome } = collecting()
  source.reader!.onData(Buffer.from('abcdef'))
  source.resume = () => {
    throw new TypeError('a mistake')
  }
  claim.grant!()
  await expect(outcome).rejects.toThrow('a mistake')
  expect([claim.isReleased, source.reader]).toEqual([true, undefined])
})

function collecting(): { source: RecordedBody; claim: Claim; outcome: ReturnType<typeof collect> } {
  const [source, claim] = [new RecordedBody(), new Claim()]
  return { source, claim, outcome: collect(source, claim as unknown as BodyClaim, OPTIONS) }
}
