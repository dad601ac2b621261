import { expect } from 'vitest'
import { settle } from './settling.ts'

/** Each of the token's bits is changed, one in so many. */
export async function expectChangedRefused(port: number, token: string, step: number): Promise<void> {
  const bytes = Buffer.from(token, 'base64url')
  for (let bit = 0; bit < bytes.length * 8; bit += step) {
    const changed = Buffer.from(bytes)
    changed[bit >> 3]! ^= 1 << (bit & 7)
    const { status } = await settle(port, changed.toString('base64url'))
    expect(status).toBe(400)
  }
}

/** The token ends too early, or is followed by a part of itself: of every length, one in so many. */
export async function expectPartsRefused(port: number, token: string, step: number): Promise<void> {
  const bytes = Buffer.from(token, 'base64url')
  for (let length = 0; length < bytes.length; length += step) {
    for (const changed of [bytes.subarray(0, length), Buffer.concat([bytes, bytes.subarray(0, length + 1)])]) {
      expect((await settle(port, changed.toString('base64url') || 'x')).status).toBe(400)
    }
  }
}
