import type { JsonEvents, JsonScanner } from './json-scanner.ts'
import { unitsOf } from './json-string.ts'

/** How a value counts. What is not named here counts 0, or is absent where a number's value is asked for; null is absent always. */
export interface Reading {
  /** A text: by its characters, kept as `keptText`, or 1 when it is this word and else 0. */
  readonly text?: 'characters' | 'kept' | { readonly word: Uint16Array }
  /** A number: so much, or its own value where that is a whole number from 0 on. */
  readonly number?: number | 'value'
  /** Counts 1, but for `false` and null: lenient readers take `1`, `"true"` and more for true. */
  readonly isFlag?: boolean
  /** A list: the sum of its values, each read so. */
  readonly list?: Reading
  readonly fields?: Fields
  /** An object that is not empty: as long as JSON.stringify would write it, except that a name counts each time it comes. */
  readonly isWritten?: boolean
}

/** What is read of an object. Of a name that comes more than once the last value counts, as JSON.parse has it. */
export interface Fields {
  readonly names: readonly string[]
  readonly byLength: readonly (readonly Field[])[]
  /** The size of the object, by those of its fields; ABSENT for each that is not there. */
  readonly size: (sizes: Float64Array, from: number) => number
  /** The sizes of the last such object are kept as `keptSizes`. */
  readonly isKept: boolean
}

interface Field {
  readonly name: Uint16Array
  readonly index: number
  readonly reading: Reading
}

const ABSENT = -1
const NO_NAME_YET = -2
/** More names than are read of any object, and deeper than anything is read. */
const MAX_FIELDS = 16
const MAX_FRAMES = 12

/** Fields in this order have the indexes 0, 1, ... Without a rule of its own an object is as large as they are together. */
export function fieldsOf(readings: Readonly<Record<string, Reading>>, options: Partial<Pick<Fields, 'size' | 'isKept'>> = {}): Fields {
  const names = Object.keys(readings)
  const byLength: Field[][] = Array.from({ length: Math.max(...names.map(({ length }) => length)) + 1 }, () => [])
  names.forEach((name, index) => {
    byLength[name.length]!.push({ name: unitsOf(name), index, reading: readings[name]! })
  })
  const size = (sizes: Float64Array, from: number): number => sum(sizes, from, names.length)
  return { names, byLength, size, isKept: false, ...options }
}

export function sum(sizes: Float64Array, from: number, count: number): number {
  let total = 0
  for (let i = from; i < from + count; i++) if (sizes[i]! > 0) total += sizes[i]!
  return total
}

/** Adds up what a scanner tells of an object, by a table of what counts. Holds a few numbers for each level that is read. */
export class JsonSizes implements JsonEvents {
  readonly keptSizes = new Float64Array(MAX_FIELDS)
  keptText: string | undefined
  /** A name of the outermost object that is read came again. */
  hasRepeatedName = false
  /** A name of the outermost object differs from one that is read by the case of its letters alone. */
  hasNameInOtherCase = false
  /** What is being read: the readings of open objects and lists, and for each of them MAX_FIELDS sizes. */
  readonly #frames: Reading[] = []
  readonly #isList: boolean[] = []
  readonly #sizes = new Float64Array(MAX_FRAMES * MAX_FIELDS)
  /** Where the size of the value to come belongs, by frame. */
  readonly #field = new Int8Array(MAX_FRAMES)
  #next: Reading | undefined
  /** Of the outermost object: a bit for each name that came. */
  #seen = 0
  /** How deep the scanner is inside something that is not read. */
  #unreadDepth = 0
  #writtenDepth = 0
  #written = 0

  constructor(fields: Fields) {
    this.#next = { fields }
  }

  /** Of a field of the outermost object. */
  size(index: number): number {
    return this.has(index) ? this.#sizes[index]! : ABSENT
  }

  has(index: number): boolean {
    return (this.#seen & (1 << index)) !== 0
  }

  name(scanner: JsonScanner): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) {
      this.#written += scanner.writtenCharacters + NAME_SIGNS
      return
    }
    const top = this.#frames.length - 1
    const fields = this.#frames[top]!.fields!
    if (this.#field[top] === NO_NAME_YET) this.#sizes.fill(ABSENT, top * MAX_FIELDS, top * MAX_FIELDS + fields.names.length)
    const field = findField(fields, scanner)
    this.#next = field?.reading
    this.#field[top] = field?.index ?? ABSENT
    if (top > 0) return
    if (field === undefined) {
      this.hasNameInOtherCase ||= isInOtherCase(fields, scanner)
      return
    }
    this.hasRepeatedName ||= this.has(field.index)
    this.#seen |= 1 << field.index
  }

  string(scanner: JsonScanner, isWhole: boolean): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) return this.#write(scanner.writtenCharacters + QUOTES)
    const text = this.#next?.text
    if (text === undefined) this.#completeUncounted()
    else if (text === 'characters') this.#complete(scanner.characters)
    else if (!isWhole) this.#complete(ABSENT)
    else if (text === 'kept') {
      this.keptText = scanner.text()
      this.#complete(0)
    } else this.#complete(scanner.isText(text.word) ? 1 : 0)
  }

  number(scanner: JsonScanner): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) return this.#write(writtenNumber(scanner.numberValue()))
    const number = this.#next?.number
    if (number === undefined) return this.#completeUncounted()
    if (number !== 'value') return this.#complete(number)
    const value = scanner.numberValue()
    this.#complete(Number.isInteger(value) && value >= 0 ? value : ABSENT)
  }

  literal(value: boolean | null): void {
    if (this.#unreadDepth > 0) return
    if (this.#writtenDepth > 0) return this.#write(value === false ? 5 : 4)
    if (value === null) this.#complete(ABSENT)
    else if (value) this.#completeUncounted()
    else this.#complete(this.#next?.number === 'value' ? ABSENT : 0)
  }

  begin(isObject: boolean): void {
    if (this.#unreadDepth > 0) this.#unreadDepth++
    else if (this.#writtenDepth > 0) this.#writtenDepth++
    else if (isObject ? this.#next?.fields !== undefined : this.#next?.list !== undefined) this.#push(this.#next!, isObject)
    else if (isObject && this.#next?.isWritten) {
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
    this.#frames.push(reading)
    this.#isList.push(!isObject)
    if (isObject) {
      this.#field[top] = NO_NAME_YET
      this.#next = undefined
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
    if (fields!.isKept) this.keptSizes.set(this.#sizes.subarray(from, from + MAX_FIELDS))
    if (top > 0) this.#complete(fields!.size(this.#sizes, from))
  }

  /** The value at hand is of a kind that does not count. */
  #completeUncounted(): void {
    if (this.#next?.isFlag) this.#complete(1)
    else this.#complete(this.#next?.number === 'value' ? ABSENT : 0)
  }

  /** The value at hand has this size. */
  #complete(size: number): void {
    const top = this.#frames.length - 1
    if (top < 0) return
    if (this.#isList[top]) {
      if (size > 0) this.#sizes[top * MAX_FIELDS]! += size
      this.#next = this.#frames[top]!.list
      return
    }
    if (this.#field[top]! >= 0) this.#sizes[top * MAX_FIELDS + this.#field[top]!] = size
    this.#next = undefined
  }

  /** A value inside of what is written, and the comma behind it. */
  #write(characters: number): void {
    this.#written += characters + 1
  }

  #endWritten(isEmpty: boolean): void {
    // Behind the last value there is no comma.
    this.#written += isEmpty ? BRACKETS : BRACKETS - 1
    if (--this.#writtenDepth > 0) this.#written++
    else this.#complete(isEmpty ? 0 : this.#written)
  }
}

const QUOTES = 2
const BRACKETS = 2
/** Two quotes and a colon. */
const NAME_SIGNS = 3

function findField({ byLength }: Fields, scanner: JsonScanner): Field | undefined {
  const candidates = byLength[scanner.textLength]
  if (candidates !== undefined) for (const field of candidates) if (scanner.isText(field.name)) return field
  return undefined
}

function isInOtherCase({ byLength }: Fields, scanner: JsonScanner): boolean {
  const candidates = byLength[scanner.textLength]
  if (candidates !== undefined) for (const { name } of candidates) if (scanner.isTextInAnyCase(name)) return true
  return false
}

/** JSON has no infinity: JSON.stringify writes null. */
function writtenNumber(value: number): number {
  return Number.isFinite(value) ? String(value).length : 4
}
