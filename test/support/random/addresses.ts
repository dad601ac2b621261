import fc from 'fast-check'
import type { Address } from '../../../src/text/address.ts'

/** An address as one number, the way people count them. */
export interface NumericAddress {
  readonly isV6: boolean
  readonly number: bigint
}

const v4 = fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }).map((number): NumericAddress => ({ isV6: false, number }))

/** Runs of zeros are what IPv6 texts are about. */
const v6 = fc
  .array(fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 0xffffn })), { minLength: 8, maxLength: 8 })
  .map((groups): NumericAddress => ({ isV6: true, number: groups.reduce((sum, group) => (sum << 16n) | group, 0n) }))
  .filter(({ number }) => number >> 32n !== 0xffffn)

/** Any address but IPv4 inside IPv6, which is the IPv4 that it is. */
export const anyAddress = fc.oneof(v4, v6)

export function bitsOf({ isV6 }: NumericAddress): number {
  return isV6 ? 128 : 32
}

/** The plainest way to write it. */
export function textOf({ isV6, number }: NumericAddress): string {
  const [count, width, base, mark] = isV6 ? ([8, 16, 16, ':'] as const) : ([4, 8, 10, '.'] as const)
  const parts = Array.from({ length: count }, (_, i) => (number >> BigInt(width * (count - 1 - i))) & ((1n << BigInt(width)) - 1n))
  return parts.map((part) => part.toString(base)).join(mark)
}

export function addressOf({ isV6, number }: NumericAddress): Address {
  const word = (shift: number): number => Number(BigInt.asIntN(32, number >> BigInt(shift)))
  return isV6 ? { isV6, words: [word(96), word(64), word(32), word(0)] } : { isV6, words: [word(0), 0, 0, 0] }
}
