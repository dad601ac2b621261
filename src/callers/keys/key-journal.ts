import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { replaceFile, withDiskTimeout } from '../../files/whole-file.ts'
import { StateFault } from '../../store/state/state-format.ts'
import { acquireStateLock, StateInUse, type StateLock } from '../../store/state/state-lock.ts'
import { decodeKey, encodeKey, type IssuedKey } from './issued-key.ts'
import {
  checksumOf,
  EMPTY,
  isSameContent,
  type KeyFileSeal,
  type LostTail,
  lineOf,
  longerSeal,
  OLD_HEADER,
  readSeal,
  sealLine,
} from './key-file-seal.ts'

/** The file of keys cannot be used. The message is a sentence about it. */
export class KeyFileFault extends Error {}

const NEWLINE = 0x0a
/** A line has a checksum of eight digits, a space, and JSON. The longest one, with 32 long labels, has less than a tenth of this. */
const MAX_LINE_BYTES = 1024 * 1024
/** Bytes that are read at once: few enough for other work to have its turn. */
const READ_BYTES = 64 * 1024
/** A line of a key has at least about as many. */
const MIN_KEY_BYTES = 180
/** Lines that no longer count are removed once they are more than those that do, and more than this. */
const MIN_DEAD_LINES = 1000
/** Lines that are written at once when the file is replaced, and revoked keys in a line. */
const LINES_PER_WRITE = 1000

/** What a journal is read into. */
export interface JournalReader {
  /** There will be at most about this many keys. */
  expect(keys: number): void
  note(key: IssuedKey): void
  /** This key was revoked long ago. */
  noteRevoked(id: string): void
  /** All instances of the fleet knew the same at this time. */
  noteSynced(wallMs: number): void
}

/**
 * The file that keeps issued keys: a line for each state of a key, added at its end, and in the disk before anybody is told. The last line of a key counts. A
 * process that is killed in the middle of a write leaves a line without an end, which nobody was told of, and which the next start removes. Damage refuses the
 * start: to go on without some keys would lock their users out, and an old file would let revoked ones in.
 *
 * The first line says how much must follow it, see `KeyFileSeal`. If there is less, the file was cut. Its keys are used nevertheless, and the loss is reported at
 * each start until an operator has acknowledged it.
 */
export class KeyJournal {
  readonly path: string
  readonly #lock: StateLock
  #handle: FileHandle
  /** What is known to be good; what follows it is overwritten. */
  #seal: KeyFileSeal
  /** Whether the file may lack what was written to it, because the disk failed to say so, or is of an earlier version. */
  #isDoubtful: boolean
  #beganMs: number | undefined
  #replacing: Promise<void> = Promise.resolve()

  private constructor(lock: StateLock, handle: FileHandle, { seal, isOld }: ReadJournal) {
    this.path = lock.statePath
    this.#lock = lock
    this.#handle = handle
    this.#seal = seal
    this.#isDoubtful = isOld
  }

  /** Locks and reads the file. Throws a KeyFileFault if that is impossible. */
  static async open(path: string, reader: JournalReader): Promise<KeyJournal> {
    const lock = await acquireStateLock(path).catch((error: unknown) => {
      throw error instanceof StateInUse || error instanceof StateFault ? new KeyFileFault(error.message) : error
    })
    let handle: FileHandle | undefined
    try {
      const read = await readJournal(lock.statePath, reader)
      if (read.isNew) await replaceFile(lock.statePath, (made) => writeAll(made, sealLine(EMPTY), 0))
      handle = await open(lock.statePath, constants.O_RDWR | constants.O_CREAT, 0o600)
      await handle.chmod(0o600)
      const journal = new KeyJournal(lock, handle, read)
      if (!read.isOld) {
        await journal.#writeSeal()
        await handle.truncate(journal.#seal.bytes)
        await handle.datasync()
      }
      return journal
    } catch (error) {
      await handle?.close()
      await lock.release()
      if (error instanceof KeyFileFault) throw error
      throw new KeyFileFault(`cannot use ${lock.statePath}: ${(error as Error).message}`)
    }
  }

  /** Whether the file must be rewritten before anything else, because an earlier build wrote it. */
  get isOutdated(): boolean {
    return this.#isDoubtful
  }

  /** What was cut off the file; undefined if nothing was, or an operator knows. */
  get lost(): LostTail | undefined {
    return this.#seal.lost
  }

  /** Resolves when the file no longer says that something is missing. It may be called at any time. */
  async acknowledgeLoss(): Promise<void> {
    this.#seal = { ...this.#seal, lost: undefined }
    // A file that takes the place of this one may say it too.
    await this.#replacing.catch(() => {})
    if (this.#isDoubtful) return
    await this.#writeSeal()
    await this.#handle.datasync()
  }

  /** Whether the disk has not responded for so long that it may never do. */
  isSlow(nowMs: number): boolean {
    return this.#beganMs !== undefined && nowMs - this.#beganMs > 2000
  }

  /** Resolves when the keys are on the disk. If it rejects, the file is as it was. Only one call may be under way. */
  async append(keys: readonly IssuedKey[], live: LiveKeys): Promise<void> {
    if (this.#isDoubtful || this.#seal.lines - live.size > Math.max(MIN_DEAD_LINES, live.size)) await this.rewrite(live)
    await this.#add(keys.map(encodeKey))
  }

  /** Replaces the file with one that has a line for each of these keys. If it rejects, the file is as it was. */
  async rewrite(live: LiveKeys): Promise<void> {
    this.#beganMs = performance.now()
    try {
      this.#replacing = this.#replace(live)
      await this.#replacing
    } finally {
      this.#beganMs = undefined
    }
  }

  /** The file must have all keys that were known at this time. */
  async appendSynced(wallMs: number): Promise<void> {
    await this.#add([JSON.stringify({ synced: wallMs })])
  }

  /** Gives up waiting for a disk that hangs: what was confirmed is on it. */
  async close(): Promise<void> {
    await withDiskTimeout(this.#close()).catch(() => {})
  }

  async #close(): Promise<void> {
    if (!this.#isDoubtful) await this.#handle.datasync()
    await this.#handle.close()
    await this.#lock.release()
  }

  async #add(texts: readonly string[]): Promise<void> {
    const bytes = Buffer.from(texts.map(lineOf).join(''))
    const { bytes: length } = this.#seal
    this.#beganMs = performance.now()
    try {
      await writeAll(this.#handle, bytes, length)
      await this.#handle.datasync()
      this.#seal = longerSeal(this.#seal, bytes, texts.length)
    } catch (error) {
      // The kernel may have dropped what a sync failed to write, so a later sync would not notice. The file is written anew before the next line.
      this.#isDoubtful = true
      await this.#handle.truncate(length).catch(() => {})
      throw error
    } finally {
      this.#beganMs = undefined
    }
    // It says only what is on the disk already, and reaches the disk with what is written next. If it cannot be written, the file is written anew.
    await this.#writeSeal().catch(() => {
      this.#isDoubtful = true
    })
  }

  async #writeSeal(): Promise<void> {
    await writeAll(this.#handle, sealLine(this.#seal), 0)
  }

  async #replace(live: LiveKeys): Promise<void> {
    const seal = await replaceFile(this.path, async (handle) => {
      let seal: KeyFileSeal = EMPTY
      for (const text of pieces(live)) {
        const bytes = Buffer.from(text.join(''))
        await writeAll(handle, bytes, seal.bytes)
        seal = longerSeal(seal, bytes, text.length)
        // A million keys take a while, on a good disk too.
        this.#beganMs = performance.now()
      }
      seal = { ...seal, lost: this.#seal.lost }
      await writeAll(handle, sealLine(seal), 0)
      return seal
    })
    const handle = await open(this.path, constants.O_RDWR)
    await this.#handle.close()
    this.#handle = handle
    this.#seal = { ...seal, lost: this.#seal.lost }
    this.#isDoubtful = false
  }
}

/** The keys that the file is for. */
export interface LiveKeys {
  readonly size: number
  /** Those that were ever revoked. */
  readonly revoked: { ids(): Iterable<string> }
  keys(): Iterable<IssuedKey>
  /** When all instances of the fleet knew the same; undefined if there is no fleet. */
  readonly syncedMs?: number | undefined
}

function* pieces(live: LiveKeys): Generator<string[]> {
  let lines: string[] = []
  if (live.syncedMs !== undefined) lines.push(lineOf(JSON.stringify({ synced: live.syncedMs })))
  // They come before the keys, of which none may bring one of them back.
  let ids: string[] = []
  for (const id of live.revoked.ids()) {
    if (ids.push(id) < LINES_PER_WRITE) continue
    yield [lineOf(JSON.stringify({ revoked: ids }))]
    ids = []
  }
  if (ids.length > 0) lines.push(lineOf(JSON.stringify({ revoked: ids })))
  for (const key of live.keys()) {
    lines.push(lineOf(encodeKey(key)))
    if (lines.length < LINES_PER_WRITE) continue
    yield lines
    lines = []
  }
  yield lines
}

/** A disk that is nearly full may write a part, and report the error with the next write. */
async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  let written = 0
  while (written < bytes.length) written += (await handle.write(bytes, written, bytes.length - written, position + written)).bytesWritten
}

interface ReadJournal {
  readonly seal: KeyFileSeal
  readonly isNew: boolean
  /** Whether a build without seals wrote it. */
  readonly isOld: boolean
}

async function readJournal(path: string, reader: JournalReader): Promise<ReadJournal> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  if (handle === undefined) return { seal: EMPTY, isNew: true, isOld: false }
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw new KeyFileFault(`${path} is not a file`)
    reader.expect(Math.ceil(stat.size / MIN_KEY_BYTES))
    return await readLines(handle, path, reader)
  } finally {
    await handle.close()
  }
}

/** Uses one buffer for the whole file, which may be large, so that reading it leaves no garbage behind. */
async function readLines(handle: FileHandle, path: string, reader: JournalReader): Promise<ReadJournal> {
  const buffer = Buffer.allocUnsafe(MAX_LINE_BYTES)
  let [filled, number] = [0, 0]
  let claimed: KeyFileSeal | 'old' | undefined
  let seal: KeyFileSeal = { ...EMPTY, bytes: 0 }
  const fail = (problem: string, line = number): never => {
    throw new KeyFileFault(`${path}, line ${line}: ${problem}. ${WAY_OUT}`)
  }
  for (;;) {
    const { bytesRead } = await handle.read(buffer, filled, Math.min(READ_BYTES, buffer.length - filled), seal.bytes + filled)
    if (bytesRead === 0) break
    filled += bytesRead
    const bytes = buffer.subarray(0, filled)
    let start = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      number++
      const line = bytes.subarray(start, end)
      if (line.toString('latin1', 0, 9) !== checksumOf(line.subarray(9)))
        fail(number === 1 ? 'this is not a file of keys' : 'it is damaged')
      const text = line.toString('utf8', 9)
      if (claimed === undefined) {
        claimed = text === OLD_HEADER ? 'old' : (readSeal(text) ?? fail(NEWER))
        seal = { ...EMPTY, bytes: line.length + 1 }
      } else {
        if (!readLine(text, reader)) fail(NEWER)
        seal = longerSeal(seal, bytes.subarray(start, end + 1), 1)
        if (claimed !== 'old' && seal.lines === claimed.lines && !isSameContent(seal, claimed))
          fail('this line, or one before it, was replaced')
      }
      start = end + 1
    }
    buffer.copyWithin(0, start, filled)
    filled -= start
    if (filled === buffer.length) fail('it has no end', number + 1)
  }
  return {
    seal: { ...seal, bytes: Math.max(seal.bytes, EMPTY.bytes), lost: lostTail(claimed, seal, filled) },
    isNew: false,
    isOld: claimed === 'old',
  }
}

/** Returns what was cut off. What follows the last whole line, `rest` bytes, was never confirmed if the seal does not know of it. */
function lostTail(claimed: KeyFileSeal | 'old' | undefined, seal: KeyFileSeal, rest: number): LostTail | undefined {
  // A file is made whole, so one without a first line was emptied. An operator may also have made it, and knows.
  if (claimed === undefined) return { bytes: rest, lines: 0 }
  // Of a file of an earlier version, nobody can tell whether a line was confirmed.
  if (claimed === 'old') return rest > 0 ? { bytes: rest, lines: 1 } : undefined
  const [bytes, lines] = [claimed.bytes - seal.bytes, claimed.lines - seal.lines]
  if (lines <= 0) return claimed.lost
  const { lost = { bytes: 0, lines: 0 } } = claimed
  return { bytes: lost.bytes + bytes, lines: lost.lines + lines }
}

const WAY_OUT = 'Restore the file from a backup, or move it away and import the keys from an export'
const NEWER = 'a newer version of edge wrote it'

/** Returns false if it cannot be read. */
function readLine(text: string, reader: JournalReader): boolean {
  const [, synced] = (text.startsWith('{"synced"') && /^\{"synced":([\d.]{1,24})\}$/.exec(text)) || []
  if (synced !== undefined) {
    reader.noteSynced(Number(synced))
    return true
  }
  if (text.startsWith('{"revoked"')) {
    const ids = /^\{"revoked":\["([0-9a-f]{12}(?:","[0-9a-f]{12}){0,999})"\]\}$/.exec(text)?.[1]?.split('","') ?? []
    for (const id of ids) reader.noteRevoked(id)
    return ids.length > 0
  }
  const key = decodeKey(text)
  if (key !== undefined) reader.note(key)
  return key !== undefined
}
