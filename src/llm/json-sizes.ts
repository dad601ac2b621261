import type { JsonEvents } from './json-scanner.ts'
import { type JsonString, unitsOf } from './json-string.ts'

/** How a value counts. Kinds of values that are not listed here count 0, or NO_COUNT if a number's value is expected; null always counts as absent. */
export interface Reading {
  /** A string counts its characters, or is kept as `keptText` (see there), or counts 1 if it is the first of these words, 2 if the second, and so on, else 0. */
  readonly text?: 'characters' | 'kept' | { readonly words: readonly Uint16Array[] } | undefined
  /** A number counts this size, or its own value if that is an integer of at least 0. Protocol Buffers also write such a value as a text of digits. */
  readonly number?: number | 'value' | 'value or text' | undefined
  /** Any value counts 1 except `false` and null, because lenient readers accept `1`, `"true"` and more as true; `true` itself counts TRUE. */
  readonly isFlag?: boolean | undefined
  /** A list counts the sum of its values, each of them read like this. */
  readonly list?: Reading | undefined
  readonly fields?: Fields | undefined
  /** A non-empty object (or list, if included) counts its length as JSON.stringify would write it, except that a repeated name counts each time. */
  readonly written?: 'objects' | 'objects and lists' | undefined
  /** A text, an object or a list adds one to `marked`, whatever its size. */
  readonly isMarked?: boolean | undefined
}

/** The fields that are read from an object. The last value of a repeated name counts, as in JSON.parse. */
export interface Fields {
  readonly names: readonly string[]
  readonly byLength: readonly (readonly Field[])[]
  /** Computes the size of the object from those of its fields, which are ABSENT if missing. */
  readonly size: (sizes: readonly number[], from: number) => number
  /** Index in `keptSizes` at which the field sizes of the last such object are kept; undefined if they are not kept. */
  readonly keptAs: number | undefined
  /** How the object's other fields count; `otherSize` is their sum over all objects. They do not count if this is undefined. */
  readonly others: Reading | undefined
  /** Whether repeated names and names in another case are noted in this object, too, as they are in the outermost. */
  readonly isStrict: boolean
}

interface Field {
  /** The first unit of the name, in lower case. Most other names of its length begin with another one. */
  readonly initial: number
  readonly name: Uint16Array
  /** The name in lower case. */
  readonly folded: Uint16Array
  readonly index: number
  readonly reading: Reading
}

/** Size of a flag that is exactly `true`. */
export const TRUE = 2
/** Size of a field that is missing or null. */
export const ABSENT = -1
const NO_NAME_YET = -2
/** Size of a value that is not an integer of at least 0, where one is expected. */
export const NO_COUNT = -3
/** Field index of a value that belongs to none of the known fields. */
const OTHER = -3
/** Exceeds the number of fields of any object that is read. */
const MAX_FIELDS = 32
/** More than the requests of any batch; a body could have millions of such names. */
export const MAX_KEPT_NAMES = 1000

/** Builds the table of an object's fields, which get the indexes 0, 1, … in this order. Without `size`, the size of an object is the sum of its fields. */
export function fieldsOf(
  readings: Readonly<Record<string, Reading>>,
  options: Partial<Pick<Fields, 'size' | 'keptAs' | 'others' | 'isStrict'>> = {},
): Fields {
  const names = Object.keys(readings)
  const byLength: Field[][] = Array.from({ length: Math.max(...names.map(({ length }) => length)) + 1 }, () => [])
  names.forEach((name, index) => {
    const folded = unitsOf(name.toLowerCase())
    byLength[name.length]!.push({ initial: folded[0]!, name: unitsOf(name), folded, index, reading: inOneShape(readings[name]!) })
  })
  const { size = (sizes, from) => sum(sizes, from, names.length), keptAs, others, isStrict = false } = options
  return { names, byLength, size, keptAs, others: others && inOneShape(others), isStrict }
}

/** Every value of a body is looked up in a reading. V8 does that several times as fast if all readings have the same members in the same order. */
function inOneShape({ text, number, isFlag, list, fields, written, isMarked }: Reading): Reading {
  return { text, number, isFlag, list: list && inOneShape(list), fields, written, isMarked }
}

export function sum(sizes: readonly number[], from: number, count: number): number {
  let total = 0
  for (let i = from; i < from + count; i++) if (sizes[i]! > 0) total += sizes[i]!
  return total
}

/**
 * Adds up the sizes in a scanned object according to a table of what counts. Memory is a few numbers for each level that is read. They are in arrays that
 * grow: most bodies need little of them, and the memory of a typed array lies outside of the heap, so that it took longer to allocate than a body to read.
 */
export class JsonSizes implements JsonEvents {
  readonly keptSizes: (readonly number[])[] = []
  /** Whether the text is a list that is read. */
  isList = false
  /** The last text that is kept; undefined if it is longer than 256 UTF-16 units. */
  keptText: string | undefined
  /** Whether different texts are kept. */
  hasKeptTexts = false
  /** Called behind each object of an outermost list. */
  onItem: (() => void) | undefined
  /** For each text that may be kept, in its order: the number of bytes up to the end of its name. At most MAX_KEPT_NAMES and one more. */
  keptNameEnds: number[] | undefined
  otherSize = 0
  marked = 0
  /** For each field of the outermost object: the number of bytes up to the end of its name. */
  readonly nameEnds: number[] = []
  /** Whether a field of the outermost object, or of a strict one, was repeated. */
  hasRepeatedName = false
  /** Whether a name in such an object differs from a field only in case. */
  hasNameInOtherCase = false
  /** Readings of the open objects and lists; each of them has MAX_FIELDS sizes. */
  readonly #frames: Reading[] = []
  readonly #isList: boolean[] = []
  readonly #sizes: number[] = []
  /** For each frame: the index of the field that the next value belongs to. */
  readonly #field: number[] = []
  #next: Reading | undefined
  /** One bit for each field of the outermost object that was found. */
  #seen = 0
  /** The same for the strict object that was read last. Strict objects contain no others. */
  #seenInStrict = 0
  #hasKept = false
  /** Nesting depth inside a value that is not read; 0 outside of one. */
  #unreadDepth = 0
  #writtenDepth = 0
  #written = 0

  /** `items` says how the objects count if the text is a list of them. */
  constructor(fields: Fields, items?: Reading) {
    this.#next = inOneShape({ fields, list: items })
  }

  /** Size of an outermost list; 0 if there is none. */
  get listSize(): number {
    return this.isList ? this.#sizes[0]! : 0
  }

  /** Size of a field of the outermost object, or ABSENT. */
  size(index: number): number {
    return this.has(index) ? this.#sizes[index]! : ABSENT
  }

  has(index: number): boolean {
    return (this.#seen & (1 << index)) !== 0
  }

  name(name: JsonString, end: number): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) {
      this.#written += name.writtenCharacters + NAME_SIGNS
      return
    }
    const top = this.#frames.length - 1
    const fields = this.#frames[top]!.fields!
    if (this.#field[top] === NO_NAME_YET) this.#clear(top * MAX_FIELDS, fields.names.length)
    const field = findField(fields, name)
    if (field === undefined) return this.#nameOther(fields, name, top)
    this.#next = field.reading
    this.#field[top] = field.index
    if (field.reading.text === 'kept') this.#noteKept(end)
    if (fields.isStrict) this.#noteInStrict(field.index)
    if (top > 0) return
    this.nameEnds[field.index] = end
    this.hasRepeatedName ||= this.has(field.index)
    this.#seen |= 1 << field.index
  }

  #clear(from: number, count: number): void {
    for (let i = from; i < from + count; i++) this.#sizes[i] = ABSENT
  }

  #noteKept(end: number): void {
    this.keptNameEnds ??= []
    if (this.keptNameEnds.length <= MAX_KEPT_NAMES) this.keptNameEnds.push(end)
  }

  #noteInStrict(index: number): void {
    this.hasRepeatedName ||= (this.#seenInStrict & (1 << index)) !== 0
    this.#seenInStrict |= 1 << index
  }

  /**
   * Handles a name that is not a known field. Some readers treat a name in another case as the field: in the outermost object this is noted, and
   * inside it the value counts in addition to the field, like the value of an unknown name.
   */
  #nameOther(fields: Fields, name: JsonString, top: number): void {
    const field = findInOtherCase(fields, name)
    const isOutermost = top === 0
    if (isOutermost || fields.isStrict) this.hasNameInOtherCase ||= field !== undefined
    this.#next = fields.others ?? (isOutermost ? undefined : field?.reading)
    this.#field[top] = OTHER
  }

  string(string: JsonString, isWhole: boolean): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) return this.#write(string.writtenCharacters + QUOTES)
    if (this.#next?.isMarked) this.marked++
    const text = this.#next?.text
    if (text === undefined) this.#completeText(string, isWhole)
    else if (text === 'characters') this.#complete(string.characters)
    else if (!isWhole) this.#complete(ABSENT)
    else if (text === 'kept') {
      const kept = string.text()
      this.hasKeptTexts ||= this.#hasKept && kept !== this.keptText
      this.#hasKept = true
      this.keptText = kept
      this.#complete(0)
    } else this.#complete(1 + text.words.findIndex((word) => string.equals(word)))
  }

  #completeText(string: JsonString, isWhole: boolean): void {
    if (this.#next?.number !== 'value or text') return this.#completeUncounted()
    const text = isWhole ? string.text() : undefined
    this.#complete(text !== undefined && /^\d+$/.test(text) ? countOf(Number(text)) : NO_COUNT)
  }

  number(number: JsonString): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) return this.#write(number.isCaptured ? writtenNumber(number.numberValue()) : number.length)
    const reading = this.#next?.number
    if (reading === undefined) return this.#completeUncounted()
    if (typeof reading === 'number') return this.#complete(reading)
    this.#complete(countOf(number.numberValue()))
  }

  literal(value: boolean | null): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) return this.#write(value === false ? 5 : 4)
    if (value === null) this.#complete(ABSENT)
    else if (value && this.#next?.isFlag) this.#complete(TRUE)
    else if (value) this.#completeUncounted()
    else this.#complete(this.#isCountExpected() ? NO_COUNT : 0)
  }

  begin(isObject: boolean): void {
    if (this.#unreadDepth > 0) {
      this.#unreadDepth++
      return
    }
    if (this.#writtenDepth > 0) {
      this.#writtenDepth++
      return
    }
    if (this.#next?.isMarked) this.marked++
    if (isObject ? this.#next?.fields !== undefined : this.#next?.list !== undefined) this.#push(this.#next!, isObject)
    else if (isObject ? this.#next?.written !== undefined : this.#next?.written === 'objects and lists') {
      this.#writtenDepth = 1
      this.#written = 0
    } else this.#unreadDepth = 1
  }

  end(isEmpty: boolean): void {
    if (this.#unreadDepth > 0) {
      if (--this.#unreadDepth === 0) this.#completeUncounted()
    } else if (this.#writtenDepth > 0) this.#endWritten(isEmpty)
    else this.#pop()
  }

  #push(reading: Reading, isObject: boolean): void {
    const top = this.#frames.length
    if (top === 0) this.isList = !isObject
    this.#frames.push(reading)
    this.#isList.push(!isObject)
    if (isObject) {
      this.#field[top] = NO_NAME_YET
      this.#next = undefined
      if (reading.fields!.isStrict) this.#seenInStrict = 0
    } else {
      this.#sizes[top * MAX_FIELDS] = 0
      this.#next = reading.list
    }
  }

  #pop(): void {
    const { fields } = this.#frames.pop()!
    const top = this.#frames.length
    const from = top * MAX_FIELDS
    if (this.#isList.pop()) return this.#complete(this.#sizes[from]!)
    if (this.#field[top] === NO_NAME_YET) return this.#completeUncounted()
    if (fields!.keptAs !== undefined) this.keptSizes[fields!.keptAs] = this.#sizes.slice(from, from + fields!.names.length)
    if (top > 0) this.#complete(fields!.size(this.#sizes, from))
    if (top === 1 && this.isList) this.onItem?.()
  }

  /** Completes the current value, which is of a kind that does not count. */
  #completeUncounted(): void {
    if (this.#next?.isFlag) this.#complete(1)
    else this.#complete(this.#isCountExpected() ? NO_COUNT : 0)
  }

  #isCountExpected(): boolean {
    return typeof this.#next?.number === 'string'
  }

  /** Completes the current value with this size. */
  #complete(size: number): void {
    const top = this.#frames.length - 1
    if (top < 0) return
    if (this.#isList[top]) {
      if (size > 0) this.#sizes[top * MAX_FIELDS]! += size
      this.#next = this.#frames[top]!.list
      return
    }
    if (this.#field[top]! >= 0) this.#sizes[top * MAX_FIELDS + this.#field[top]!] = size
    else if (this.#field[top] === OTHER && size > 0) this.otherSize += size
    this.#next = undefined
  }

  /** Counts a value inside an object that counts as written, and the comma after it. */
  #write(characters: number): void {
    this.#written += characters + 1
  }

  #endWritten(isEmpty: boolean): void {
    // No comma follows the last value.
    this.#written += isEmpty ? BRACKETS : BRACKETS - 1
    if (--this.#writtenDepth > 0) this.#written++
    else this.#complete(isEmpty ? 0 : this.#written)
  }
}

function countOf(value: number): number {
  return Number.isInteger(value) && value >= 0 ? value : NO_COUNT
}

const QUOTES = 2
const BRACKETS = 2
/** Two quotes and a colon. */
const NAME_SIGNS = 3

function findField({ byLength }: Fields, name: JsonString): Field | undefined {
  const candidates = byLength[name.length]
  if (candidates === undefined || candidates.length === 0) return undefined
  const { initial } = name
  for (const field of candidates) if (field.initial === initial && name.equals(field.name)) return field
  return undefined
}

function findInOtherCase({ byLength }: Fields, name: JsonString): Field | undefined {
  const candidates = byLength[name.length]
  if (candidates === undefined || candidates.length === 0) return undefined
  const { initial } = name
  for (const field of candidates) if (field.initial === initial && name.equalsInAnyCase(field.folded)) return field
  return undefined
}

/** JSON has no infinity: JSON.stringify writes null. */
function writtenNumber(value: number): number {
  return Number.isFinite(value) ? String(value).length : 4
}
