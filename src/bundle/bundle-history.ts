import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { BundleChanges } from '../policy/bundle-changes.ts'
import type { BundleFormat } from '../policy/schema/bundle.ts'
import { formatProblem } from '../text/problem.ts'
import { OneAtATime } from '../time/one-at-a-time.ts'
import type { BundleReading, ReadBundle } from './bundle-reader.ts'
import type { AppliedBundle, OfferedBundle } from './bundle-source.ts'
import type { CredentialSpan } from './credentials-in-text.ts'

/** A bundle that is or was active. */
export interface PastBundle extends AppliedBundle {
  readonly format: BundleFormat
  readonly byteLength: number
  /** Whether it came with a signature. */
  readonly isSigned: boolean
  readonly warningCount: number
  /** The first of them, each on a line. */
  readonly warnings: readonly string[]
  /** The same for all bundles that decide alike. */
  readonly policiesHash: string
  /** Whether it has credentials: its rules or routes match some, or a backend gets one. */
  readonly hasCredentials: boolean
  /** Whether its text can still be had. */
  readonly hasText: boolean
  /** What it changed, in numbers; undefined for the first one of this process. */
  readonly changes: ChangesInShort | undefined
}

type ChangesInShort = Pick<BundleChanges, 'policies' | 'prices' | 'reordered' | 'callers' | 'routing' | 'usage'>

/** The text of a bundle as it came. */
export interface BundleText {
  readonly bundle: PastBundle
  readonly text: string
  /** Where the text has them; empty where they were not asked for. */
  readonly credentials: readonly CredentialSpan[]
}

const MAX_BUNDLES = 10
const MAX_WARNINGS = 50
const MAX_WARNING_CHARACTERS = 1000
/** Bounds the compressed texts together. Ten thousand policies are some 4 MB, and some 150 KB compressed. */
const MAX_TEXT_BYTES = 16 * 1024 * 1024
/** Texts and comparisons that may wait for one another. Beyond that, whoever asks would have given up before it is their turn. */
const MAX_WAITING = 8

/**
 * Keeps the last ten bundles that were active, for operators who compare them or go back. The texts are compressed, by the threads of zlib
 * and not by this one; together they take a bounded number of bytes, and beyond that the oldest texts are dropped. The text of the active bundle stays in
 * any case. Nothing survives the process. Texts and comparisons are made one at a time, because each may take a thread of its own with a lot of memory;
 * `busy` says that too many are waiting.
 */
export class BundleHistory {
  readonly #read: ReadBundle
  readonly #maxTextBytes: number
  /** The newest first. */
  readonly #bundles: KeptBundle[] = []
  readonly #work = new OneAtATime(MAX_WAITING)
  #lastComparison: { readonly from: string; readonly to: string; readonly changes: BundleChanges } | undefined

  constructor(read: ReadBundle, maxTextBytes = MAX_TEXT_BYTES) {
    this.#read = read
    this.#maxTextBytes = maxTextBytes
  }

  /** This bundle is active from now on. */
  note(offered: OfferedBundle, applied: AppliedBundle, reading: Extract<BundleReading, { ok: true }>): void {
    const bundle = new KeptBundle(offered, applied, reading)
    this.#bundles.unshift(bundle)
    this.#bundles.splice(MAX_BUNDLES)
    void bundle.compress().then(() => this.#dropTexts())
  }

  /** The newest first. */
  list(): PastBundle[] {
    return this.#bundles.map((bundle) => bundle.description)
  }

  /** Undefined where it is not one of the last ten, or its text was dropped. Without `credentials`, the text is not searched for them. */
  async text(version: string, wanted?: 'credentials'): Promise<BundleText | 'busy' | undefined> {
    return this.#work.do(`text ${version} ${wanted}`, () => this.#text(version, wanted)) ?? 'busy'
  }

  async #text(version: string, wanted: 'credentials' | undefined): Promise<BundleText | undefined> {
    const bundle = this.#find(version)
    const bytes = await bundle?.bytes()
    if (bundle === undefined || bytes === undefined) return undefined
    const { description } = bundle
    const credentials = description.hasCredentials && wanted !== undefined ? await this.#credentials(bundle, bytes) : []
    // The mark at the beginning of a file belongs to its text.
    return { bundle: description, text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes), credentials }
  }

  /** A bundle is read once for them. */
  async #credentials(bundle: KeptBundle, bytes: Uint8Array): Promise<readonly CredentialSpan[]> {
    const known = await bundle.credentials()
    if (known !== undefined) return known
    const { credentials = [] } = good(await this.#read(bytes, bundle.description.format, undefined, 'credentials'))
    // The reader skips the mark at the beginning of a file.
    const skipped = Buffer.from(bytes.subarray(0, BYTE_ORDER_MARK.length)).equals(BYTE_ORDER_MARK) ? 1 : 0
    const spans = credentials.map(({ start, end, pattern }) => ({ start: start + skipped, end: end + skipped, pattern }))
    await bundle.keepCredentials(spans)
    this.#dropTexts()
    return spans
  }

  /** The bundle that was active before this one; undefined where it is not known. */
  before(version: string): string | undefined {
    const index = this.#bundles.findIndex(({ description }) => description.version === version)
    return index < 0 ? undefined : this.#bundles[index + 1]?.description.version
  }

  /** What differs between two of them; undefined where that cannot be told any more. Of one and the one before it that is known, others are read again. */
  async changes(from: string, to: string): Promise<BundleChanges | 'busy' | undefined> {
    return this.#work.do(`changes ${from} ${to}`, () => this.#compare(from, to)) ?? 'busy'
  }

  async #compare(from: string, to: string): Promise<BundleChanges | undefined> {
    const last = this.#lastComparison
    if (last?.from === from && last.to === to) return last.changes
    const [before, after] = [this.#find(from), this.#find(to)]
    const known = this.before(to) === from ? await after!.changes() : undefined
    if (known !== undefined) return known
    const [beforeBytes, afterBytes] = [await before?.bytes(), await after?.bytes()]
    if (beforeBytes === undefined || afterBytes === undefined) return undefined
    const { bundle } = good(await this.#read(beforeBytes, before!.description.format))
    const { changes } = good(await this.#read(afterBytes, after!.description.format, bundle))
    this.#lastComparison = { from, to, changes: changes! }
    return changes
  }

  #find(version: string): KeptBundle | undefined {
    return this.#bundles.find(({ description }) => description.version === version)
  }

  #dropTexts(): void {
    let bytes = 0
    for (const [age, bundle] of this.#bundles.entries()) {
      bytes += bundle.compressedBytes
      if (age > 0 && bytes > this.#maxTextBytes) bundle.dropText()
    }
  }
}

const BYTE_ORDER_MARK = Buffer.from('\ufeff')

const compressed = promisify(gzip)
const decompressed = promisify(gunzip)

/** Never rejects. Where there is no memory for it, it is not kept. */
function packed(bytes: Uint8Array): Promise<Buffer | undefined> {
  return compressed(bytes).catch(() => undefined)
}

async function unpacked<Value>(json: Buffer | undefined): Promise<Value | undefined> {
  return json && (JSON.parse((await decompressed(json)).toString()) as Value)
}

class KeptBundle {
  readonly #description: Omit<PastBundle, 'hasText'>
  /** As it came, until it is compressed. */
  #bytes: Uint8Array | undefined
  #compressed: Buffer | undefined
  /** Where its text has credentials, as JSON; undefined until somebody has asked. */
  #credentials: Buffer | undefined
  /** What it changed, as JSON: some KB, and at most some hundred KB before it is compressed. */
  readonly #changes: Promise<Buffer | undefined>

  constructor({ bytes, format, signature }: OfferedBundle, applied: AppliedBundle, reading: Extract<BundleReading, { ok: true }>) {
    const { changes, warnings, policiesHash, hasCredentials } = reading
    this.#changes = changes === undefined ? Promise.resolve(undefined) : packed(Buffer.from(JSON.stringify(changes)))
    this.#bytes = bytes
    this.#description = {
      ...applied,
      format,
      byteLength: bytes.length,
      isSigned: signature !== undefined,
      warningCount: warnings.length,
      warnings: warnings.slice(0, MAX_WARNINGS).map((warning) => formatProblem(warning).slice(0, MAX_WARNING_CHARACTERS)),
      policiesHash,
      hasCredentials,
      changes: changes && inShort(changes),
    }
  }

  get description(): PastBundle {
    return { ...this.#description, hasText: (this.#bytes ?? this.#compressed) !== undefined }
  }

  get compressedBytes(): number {
    return (this.#compressed?.length ?? 0) + (this.#credentials?.length ?? 0)
  }

  async compress(): Promise<void> {
    this.#compressed = await packed(this.#bytes!)
    this.#bytes = undefined
  }

  /** What it changed when it became active. */
  async changes(): Promise<BundleChanges | undefined> {
    return unpacked<BundleChanges>(await this.#changes)
  }

  credentials(): Promise<CredentialSpan[] | undefined> {
    return unpacked<CredentialSpan[]>(this.#credentials)
  }

  /** Of a text that was dropped meanwhile, nobody asks for them again. */
  async keepCredentials(spans: readonly CredentialSpan[]): Promise<void> {
    const json = await packed(Buffer.from(JSON.stringify(spans)))
    if (this.description.hasText) this.#credentials = json
  }

  async bytes(): Promise<Uint8Array | undefined> {
    if (this.#bytes !== undefined) return this.#bytes
    return this.#compressed && decompressed(this.#compressed)
  }

  dropText(): void {
    this.#compressed = undefined
    this.#credentials = undefined
  }
}

/** It was good once, and nothing that decides this has changed since. */
function good(reading: BundleReading): Extract<BundleReading, { ok: true }> {
  if (!reading.ok) throw new Error('a bundle that was active cannot be read any more')
  return reading
}

function inShort({ policies, prices, reordered, callers, routing, usage }: BundleChanges): ChangesInShort {
  return { policies, prices, reordered, callers, routing, usage }
}
