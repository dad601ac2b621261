import { type IssuedKey, isLaterKey, type KeyEdit, type KeyLabels, keyForgetMs } from './issued-key.ts'
import {
  CREATED_S,
  CREATION,
  DIGEST,
  DIGEST_WORDS,
  EDIT,
  EXPIRES,
  GENERATION,
  ID_HIGH,
  ID_LOW,
  IS_LOADED,
  type KeyMemory,
  LABELS,
  loadFloat,
  MOMENT,
  RECORD_WORDS,
  REVOKED_BIT,
  SPARE_RECORDS,
  storeFloat,
} from './key-memory.ts'
import { KeyTexts } from './key-texts.ts'
import { NumberIndex } from './number-index.ts'
import { RevokedKeys } from './revoked-keys.ts'
import { SharedKeyIndex } from './shared-key-index.ts'

/** Records that are looked at between two chances for other work. */
const RECORDS_PER_STEP = 100
/** Keys that are read at once for a copy of all. */
const KEYS_AT_ONCE = 500

/** A key that has room in the table, and is not in it yet. */
export interface PreparedKey {
  readonly record: number
  readonly id: string
}

/** The main thread's view of the issued keys: the only one that writes. In memory a key is its record and its texts; there is no object for it. */
export class KeyTable {
  readonly maxKeys: number
  /** Those that were revoked, also long ago. Workers need not know them: a key that is not in the table is not valid. */
  readonly revoked = new RevokedKeys()
  readonly #header: Int32Array
  readonly #words: Int32Array
  readonly #bytes: Buffer
  readonly #texts: KeyTexts
  readonly #index: SharedKeyIndex
  /** Records by id, each as its number plus one. Ids are evenly spread, so their upper bits are their hashes, and the index knows their order. */
  readonly #ids = new NumberIndex((number) => {
    const at = (number - 1) * RECORD_WORDS
    return idHash(this.#words[at + ID_HIGH]!, this.#words[at + ID_LOW]!)
  })
  /** Records that were used and are free again. */
  readonly #free: number[] = []
  #end = 0
  #size = 0
  /** Keys that were imported together have the same, and a start reads them one after the other. */
  #lastAuthor = { actor: '', reason: '', text: '["",""]' }
  #watch: ((id: string, momentMs: number, sign: 1 | -1) => void) | undefined

  constructor(memory: KeyMemory) {
    this.#header = new Int32Array(memory.header)
    this.#words = new Int32Array(memory.records)
    this.#bytes = Buffer.from(memory.records)
    this.#texts = new KeyTexts(memory.texts)
    this.#index = new SharedKeyIndex(memory)
    this.maxKeys = this.#words.length / RECORD_WORDS - SPARE_RECORDS
  }

  /** Number of keys, those included that are over and remembered. */
  get size(): number {
    return this.#size
  }

  get isLoaded(): boolean {
    return Atomics.load(this.#header, IS_LOADED) === 1
  }

  /** From now on, workers know that a key which is not here was never issued. */
  noteLoaded(): void {
    Atomics.store(this.#header, IS_LOADED, 1)
  }

  /** Makes room for this many keys in the indexes. If they grew with the keys, some puts would take hundreds of milliseconds. */
  reserve(keys: number): void {
    const count = Math.min(keys, this.maxKeys)
    this.#index.reserve(count)
    this.#ids.reserve(count)
    this.#texts.reserve(count)
  }

  /** Calls back for each state of a key that there is now, in steps, during which nothing may change; from then on for each that comes (1) or goes (-1). */
  *watch(watch: (id: string, momentMs: number, sign: 1 | -1) => void): Generator<void> {
    this.#watch = watch
    for (const number of this.#ids) {
      this.#tell(number - 1, 1)
      yield
    }
  }

  #tell(record: number, sign: 1 | -1): void {
    this.#watch?.(this.#idOf(record), loadFloat(this.#words, record * RECORD_WORDS + MOMENT), sign)
  }

  get(id: string): IssuedKey | undefined {
    const record = this.#recordOf(id)
    return record === undefined ? undefined : this.#read(record)
  }

  has(id: string): boolean {
    return this.#recordOf(id) !== undefined
  }

  /** Whether this state of a key is to be taken over: a later one than is known, and none of a key that was revoked. */
  accepts(key: IssuedKey): boolean {
    return (key.isRevoked || !this.revoked.has(key.id)) && isLaterKey(key, this.get(key.id))
  }

  /** Notes that a key was revoked of which perhaps nothing else is known any longer. Returns whether that is news. */
  noteRevoked(id: string): boolean {
    const record = this.#recordOf(id)
    if (record !== undefined && !this.#isRevoked(record)) this.#forget(record)
    return this.revoked.add(id)
  }

  /** Finds room for a key or for its next state. Returns undefined if there is none. It must be published or discarded. */
  prepare(key: IssuedKey): PreparedKey | undefined {
    const record = this.#free.pop() ?? (this.#end < this.maxKeys + SPARE_RECORDS ? this.#end++ : undefined)
    if (record === undefined) return undefined
    const at = record * RECORD_WORDS
    // Labels are not checked here, so that keys of a newer version with other bounds can be read.
    const texts = [JSON.stringify(key.labels), this.#authorText(key), key.edit && this.#authorText(key.edit)]
    const places: number[] = []
    for (const [i, text] of texts.entries()) {
      // A key can be revoked even if there is no room for who did it and why: the log has that.
      const noRoom = key.isRevoked && i === 2 ? 0 : undefined
      const place = text === undefined ? 0 : (this.#texts.use(text) ?? noRoom)
      if (place === undefined) {
        for (const used of places) this.#texts.release(used)
        this.#free.push(record)
        return undefined
      }
      places.push(place)
    }
    const words = this.#words
    Atomics.store(words, at + LABELS, places[0]!)
    Atomics.store(words, at + CREATION, places[1]!)
    Atomics.store(words, at + EDIT, places[2]!)
    storeFloat(words, at + EXPIRES, key.expiresMs ?? Number.POSITIVE_INFINITY)
    storeFloat(words, at + MOMENT, key.momentMs)
    const id = Number.parseInt(key.id, 16)
    Atomics.store(words, at + ID_HIGH, highWord(id) | (key.isRevoked ? REVOKED_BIT : 0))
    Atomics.store(words, at + ID_LOW, id | 0)
    Atomics.store(words, at + CREATED_S, Math.floor(key.createdMs / 1000))
    for (let i = 0; i < DIGEST_WORDS; i++) Atomics.store(words, at + DIGEST + i, key.digest.readInt32LE(i * 4))
    return { record, id: key.id }
  }

  #authorText({ actor, reason }: KeyEdit): string {
    const last = this.#lastAuthor
    if (actor !== last.actor || reason !== last.reason) this.#lastAuthor = { actor, reason, text: JSON.stringify([actor, reason]) }
    return this.#lastAuthor.text
  }

  /** Lets workers see the key, with the moment that its storage gave it. Its former state is no longer there. */
  publish({ record, id }: PreparedKey, momentMs: number): void {
    storeFloat(this.#words, record * RECORD_WORDS + MOMENT, momentMs)
    this.#show(record, this.#recordOf(id))
  }

  #show(record: number, former: number | undefined): void {
    this.#tell(record, 1)
    if (this.#isRevoked(record)) this.revoked.add(this.#idOf(record))
    if (former === undefined) {
      this.#index.add(record)
      this.#ids.add(record + 1)
      this.#size++
      return
    }
    this.#tell(former, -1)
    this.#index.replace(former, record)
    this.#ids.replace(former + 1, record + 1)
    this.#release(former)
  }

  discard({ record }: PreparedKey): void {
    this.#release(record)
  }

  /** Puts a key or its next state. Returns false if there is no room. */
  put(key: IssuedKey): boolean {
    const former = this.#recordOf(key.id)
    if (this.#size >= this.maxKeys && former === undefined) return false
    const prepared = this.prepare(key)
    if (prepared !== undefined) this.#show(prepared.record, former)
    return prepared !== undefined
  }

  /** Forgets, in steps, the keys that nobody needs to remember any longer. The records are visited in their order in memory, which is much faster than any other. */
  *forgetOver(wallMs: number): Generator<void> {
    for (let record = 0; record < this.#end; record++) {
      if (this.#isOver(record, wallMs) && this.#recordOf(this.#idOf(record)) === record) this.#forget(record)
      if (record % RECORDS_PER_STEP === 0) yield
    }
  }

  #isOver(record: number, wallMs: number): boolean {
    const at = record * RECORD_WORDS
    const isRevoked = this.#isRevoked(record)
    const expiresMs = loadFloat(this.#words, at + EXPIRES)
    if (!isRevoked && expiresMs === Number.POSITIVE_INFINITY) return false
    return keyForgetMs({ isRevoked, expiresMs, momentMs: loadFloat(this.#words, at + MOMENT) })! <= wallMs
  }

  forget(id: string): void {
    const record = this.#recordOf(id)
    if (record !== undefined) this.#forget(record)
  }

  #forget(record: number): void {
    this.#tell(record, -1)
    this.#index.remove(record)
    this.#ids.remove(record + 1)
    this.#size--
    this.#release(record)
  }

  /** Yields the keys by rising ids. Of a key that changes meanwhile it yields either state, and of one that comes or is forgotten perhaps none. */
  *keys(): Generator<IssuedKey> {
    let after: string | undefined
    do {
      const page = this.page({}, after, KEYS_AT_ONCE, KEYS_AT_ONCE)
      yield* page.keys
      after = page.next
    } while (after !== undefined)
  }

  /**
   * Returns up to `limit` keys with these labels by rising ids after `after`, and the id to go on after, undefined if there are no more. Looks at no more than
   * `atMost` keys, so that a page may have fewer than there are.
   */
  page(labels: KeyLabels, after: string | undefined, limit: number, atMost: number): { keys: IssuedKey[]; next: string | undefined } {
    // Names and values have no quotation marks in JSON that are not escaped, so this text can only be a whole label.
    const wanted = Object.entries(labels).map(([name, value]) => Buffer.from(JSON.stringify({ [name]: value }).slice(1, -1)))
    const keys: IssuedKey[] = []
    let looked = 0
    for (const record of this.#recordsAfter(after === undefined ? -1 : Number.parseInt(after, 16))) {
      looked++
      const bytes = this.#texts.bytesOf(this.#words[record * RECORD_WORDS + LABELS]!)
      if (wanted.every((label) => bytes.includes(label))) keys.push(this.#read(record))
      if (keys.length >= limit || looked >= atMost) return { keys, next: this.#idOf(record) }
    }
    return { keys, next: undefined }
  }

  /** Yields records by rising ids above this one. */
  *#recordsAfter(id: number): Generator<number> {
    const first = Math.max(0, id)
    for (const run of this.#ids.runsFrom(idHash(highWord(first), first | 0))) {
      const records = run.map((number) => number - 1)
      if (records.length > 1) records.sort((a, b) => this.#idNumber(a) - this.#idNumber(b))
      for (const record of records) if (this.#idNumber(record) > id) yield record
    }
  }

  /** Workers that read the record see by its generation that they have to search again. Only then may its texts be overwritten. */
  #release(record: number): void {
    const at = record * RECORD_WORDS
    Atomics.add(this.#words, at + GENERATION, 1)
    for (const place of [this.#words[at + LABELS]!, this.#words[at + CREATION]!, this.#words[at + EDIT]!]) {
      if (place !== 0) this.#texts.release(place)
    }
    this.#free.push(record)
  }

  #recordOf(id: string): number | undefined {
    const both = Number.parseInt(id, 16)
    const [high, low] = [highWord(both), both | 0]
    const number = this.#ids.find(idHash(high, low), (each) => {
      const at = (each - 1) * RECORD_WORDS
      return this.#words[at + ID_LOW] === low && (this.#words[at + ID_HIGH]! & (REVOKED_BIT - 1)) === high
    })
    return number === undefined ? undefined : number - 1
  }

  #isRevoked(record: number): boolean {
    return (this.#words[record * RECORD_WORDS + ID_HIGH]! & REVOKED_BIT) !== 0
  }

  #idOf(record: number): string {
    const at = record * RECORD_WORDS
    return recordId(this.#words[at + ID_HIGH]!, this.#words[at + ID_LOW]!)
  }

  #idNumber(record: number): number {
    const at = record * RECORD_WORDS
    return (this.#words[at + ID_HIGH]! & (REVOKED_BIT - 1)) * 2 ** 32 + (this.#words[at + ID_LOW]! >>> 0)
  }

  #read(record: number): IssuedKey {
    const words = this.#words
    const at = record * RECORD_WORDS
    const expiresMs = loadFloat(words, at + EXPIRES)
    const editPlace = words[at + EDIT]!
    return {
      id: this.#idOf(record),
      digest: Buffer.from(this.#bytes.subarray((at + DIGEST) * 4, (at + DIGEST + DIGEST_WORDS) * 4)),
      labels: JSON.parse(this.#texts.textOf(words[at + LABELS]!)) as KeyLabels,
      expiresMs: expiresMs === Number.POSITIVE_INFINITY ? undefined : expiresMs,
      createdMs: (words[at + CREATED_S]! >>> 0) * 1000,
      ...authorOf(this.#texts.textOf(words[at + CREATION]!)),
      momentMs: loadFloat(words, at + MOMENT),
      edit: editPlace === 0 ? undefined : authorOf(this.#texts.textOf(editPlace)),
      isRevoked: this.#isRevoked(record),
    }
  }
}

/** The upper word of an id that is a number. The lower one is `id | 0`. */
function highWord(id: number): number {
  return Math.floor(id / 2 ** 32)
}

/** Returns the id that two words of a record have. */
export function recordId(high: number, low: number): string {
  return (high & (REVOKED_BIT - 1)).toString(16).padStart(4, '0') + (low >>> 0).toString(16).padStart(8, '0')
}

/** The upper 32 bits of an id. */
function idHash(high: number, low: number): number {
  return (high << 16) | (low >>> 16)
}

function authorOf(text: string): KeyEdit {
  const [actor, reason] = JSON.parse(text) as [string, string]
  return { actor, reason }
}
