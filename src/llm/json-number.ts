/** RFC 8259 6: the states of a reader within a number. */
export const BEFORE_NUMBER = 1
const AFTER_MINUS = 2
const ZERO = 3
const INTEGER = 4
const AFTER_POINT = 5
const FRACTION = 6
const AFTER_E = 7
const AFTER_SIGN = 8
const EXPONENT = 9

const PLUS = 0x2b
const MINUS = 0x2d
const POINT = 0x2e
const DIGIT_0 = 0x30
const DIGIT_9 = 0x39

/** The state after this byte; 0 where the byte does not belong to the number. */
export function nextInNumber(state: number, byte: number): number {
  if (byte >= DIGIT_0 && byte <= DIGIT_9) {
    if (state === INTEGER || state === FRACTION || state === EXPONENT) return state
    if (state <= AFTER_MINUS) return byte === DIGIT_0 ? ZERO : INTEGER
    if (state === AFTER_POINT) return FRACTION
    return state === ZERO ? 0 : EXPONENT
  }
  if (byte === MINUS) return state === BEFORE_NUMBER ? AFTER_MINUS : state === AFTER_E ? AFTER_SIGN : 0
  if (byte === POINT) return state === ZERO || state === INTEGER ? AFTER_POINT : 0
  if (byte === 0x65 || byte === 0x45) return state === ZERO || state === INTEGER || state === FRACTION ? AFTER_E : 0
  return byte === PLUS && state === AFTER_E ? AFTER_SIGN : 0
}

/** Whether a number may end in this state. */
export function endsNumber(state: number): boolean {
  return state === INTEGER || state === ZERO || state === FRACTION || state === EXPONENT
}
