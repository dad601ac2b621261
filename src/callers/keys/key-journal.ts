import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { replaceFile, withDiskTimeout } from '../../files/whole-file.ts'
import { StateFault } from '../../store/state/state-format.ts'
import { acquireStateLock, StateInUse, type StateLock } from '../../store/state/state-lock.ts'
import { decodeKey, encodeKey, type IssuedKey } from './issued-key.ts'

/** The file of keys cannot be used. The message is a sentence about it. */
export class KeyFileFault extends Error {}

const HEADER = { edge_keys: 1 }
const NEWLINE = 0x0a
/** A line has a checksum of eight digits, a space, and JSON. The longest one, with 32 long labels, has less than a tenth of this. */
const MAX_LINE_BYTES = 1024 * 1024
/** Bytes that are read at once: few enough for other work to have its turn. */
const READ_BYTES = 64 * 1024
/** A line of a key has at least about as many. */
const MIN_KEY_BYTES = 180
/** Lines that no longer count are removed once they are more than those that do, and more than this. */
const MIN_DEAD_LINES = 1000
/** Lines that are written at once when the file is replaced. */
const LINES_PER_WRITE = 1000

/** What a journal is read into. */
export interface JournalReader {
  /** There will be at most about this many keys. */
  expect(keys: number): void
  note(key: IssuedKey): void
  /** All instances of the fleet knew the same at this time. */
  noteSynced(wallMs: number): void
}

/**
 * The file that keeps issued keys: a line for each state of a key, added at its end, and in the disk before anybody is told. The last line of a key counts. A
 * process that is killed in the middle of a write leaves a line without an end, which nobody was told of, and which the next start removes. Any other damage
 * refuses the start: to go on without some keys would lock their users out, and an old file would let revoked ones in.
 */
export class KeyJournal {
  readonly path: string
  readonly #lock: StateLock
  #handle: FileHandle
  /** Bytes that are known to be good; what follows them is overwritten. */
  #length: number
  #lines: number
  /** Whether the file may lack what was written to it, because the disk failed to say so. */
  #isDoubtful = false
  #beganMs: number | undefined

  private constructor(lock: StateLock, handle: FileHandle, length: number, lines: number) {
    this.path = lock.statePath
    this.#lock = lock
    this.#handle = handle
    this.#length = length
    this.#lines = lines
  }

  /** Locks and reads the file. Throws a KeyFileFault if that is impossible. */
  static async open(path: string, reader: JournalReader): Promise<KeyJournal> {
    const lock = await acquireStateLock(path).catch((error: unknown) => {
      throw error instanceof StateInUse || error instanceof StateFault ? new KeyFileFault(error.message) : error
    })
    let handle: FileHandle | undefined
    try {
      const { length, lines } = await readJournal(lock.statePath, reader)
      handle = await open(lock.statePath, constants.O_RDWR | constants.O_CREAT, 0o600)
      await handle.chmod(0o600)
      await handle.truncate(length)
      const journal = new KeyJournal(lock, handle, length, lines)
      if (length === 0) await journal.#add([JSON.stringify(HEADER)])
      return journal
    } catch (error) {
      await handle?.close()
      await lock.release()
      if (error instanceof KeyFileFault) throw error
      throw new KeyFileFault(`cannot use ${lock.statePath}: ${(error as Error).message}`)
    }
  }

  /** Whether the disk has not responded for so long that it may never do. */
  isSlow(nowMs: number): boolean {
    return this.#beganMs !== undefined && nowMs - this.#beganMs > 2000
  }

  /** Resolves when the keys are on the disk. If it rejects, the file is as it was. Only one call may be under way. */
  async append(keys: readonly IssuedKey[], live: LiveKeys): Promise<void> {
    if (this.#isDoubtful || this.#lines - live.size > Math.max(MIN_DEAD_LINES, live.size)) await this.rewrite(live)
    await this.#add(keys.map(encodeKey))
  }

  /** Replaces the file with one that has a line for each of these keys. If it rejects, the file is as it was. */
  async rewrite(live: LiveKeys): Promise<void> {
    this.#beganMs = performance.now()
    try {
      await this.#replace(live)
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
    await withDiskTimeout(this.#handle.close().then(() => this.#lock.release())).catch(() => {})
  }

  async #add(texts: readonly string[]): Promise<void> {
    const bytes = Buffer.from(texts.map(lineOf).join(''))
    this.#beganMs = performance.now()
    try {
      await writeAll(this.#handle, bytes, this.#length)
      await this.#handle.datasync()
      this.#length += bytes.length
      this.#lines += texts.length
    } catch (error) {
      // The kernel may have dropped what a sync failed to write, so a later sync would not notice. The file is written anew before the next line.
      this.#isDoubtful = true
      await this.#handle.truncate(this.#length).catch(() => {})
      throw error
    } finally {
      this.#beganMs = undefined
    }
  }

  async #replace(live: LiveKeys): Promise<void> {
    const { length, lines } = await replaceFile(this.path, async (handle) => {
      let [length, lines] = [0, 0]
      for (const text of pieces(live)) {
        const bytes = Buffer.from(text.join(''))
        await writeAll(handle, bytes, length)
        length += bytes.length
        lines += text.length
        // A million keys take a while, on a good disk too.
        this.#beganMs = performance.now()
      }
      return { length, lines }
    })
    const handle = await open(this.path, constants.O_RDWR)
    await this.#handle.close()
    this.#handle = handle
    this.#length = length
    this.#lines = lines
    this.#isDoubtful = false
  }
}

/** The keys that the file is for. */
export interface LiveKeys {
  readonly size: number
  keys(): Iterable<IssuedKey>
  /** When all instances of the fleet knew the same; undefined if there is no fleet. */
  readonly syncedMs?: number | undefined
}

function* pieces(live: LiveKeys): Generator<string[]> {
  let lines = [lineOf(JSON.stringify(HEADER))]
  if (live.syncedMs !== undefined) lines.push(lineOf(JSON.stringify({ synced: live.syncedMs })))
  for (const key of live.keys()) {
    lines.push(lineOf(encodeKey(key)))
    if (lines.length < LINES_PER_WRITE) continue
    yield lines
    lines = []
  }
  yield lines
}

function lineOf(text: string): string {
  return `${checksumOf(text)}${text}\n`
}

function checksumOf(text: string | Buffer): string {
  return `${crc32(text).toString(16).padStart(8, '0')} `
}

/** A disk that is nearly full may write a part, and report the error with the next write. */
async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  let written = 0
  while (written < bytes.length) written += (await handle.write(bytes, written, bytes.length - written, position + written)).bytesWritten
}

/** Reads what is there. Returns the length and the number of its whole lines. */
async function readJournal(path: string, reader: JournalReader): Promise<{ length: number; lines: number }> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  if (handle === undefined) return { length: 0, lines: 0 }
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
async function readLines(handle: FileHandle, path: string, reader: JournalReader): Promise<{ length: number; lines: number }> {
  const buffer = Buffer.allocUnsafe(MAX_LINE_BYTES)
  let [length, lines, filled] = [0, 0, 0]
  for (;;) {
    const { bytesRead } = await handle.read(buffer, filled, Math.min(READ_BYTES, buffer.length - filled), length + filled)
    if (bytesRead === 0) break
    filled += bytesRead
    const bytes = buffer.subarray(0, filled)
    let start = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      lines++
      const problem = readLine(bytes.subarray(start, end), lines, reader)
      if (problem !== undefined) throw new KeyFileFault(`${path}, line ${lines}: ${problem}. ${WAY_OUT}`)
      start = end + 1
    }
    buffer.copyWithin(0, start, filled)
    length += start
    filled -= start
    if (filled === buffer.length) throw new KeyFileFault(`${path}, line ${lines + 1}: it has no end. ${WAY_OUT}`)
  }
  return { length, lines }
}

const WAY_OUT = 'Restore the file from a backup, or move it away and import the keys from an export'

/** Returns what is wrong with the line. */
function readLine(line: Buffer, number: number, reader: JournalReader): string | undefined {
  if (line.toString('latin1', 0, 9) !== checksumOf(line.subarray(9))) return number === 1 ? 'this is not a file of keys' : 'it is damaged'
  const text = line.toString('utf8', 9)
  if (number === 1) return text === JSON.stringify(HEADER) ? undefined : 'a newer version of edge wrote it'
  const [, synced] = (text.startsWith('{"synced"') && /^\{"synced":([\d.]{1,24})\}$/.exec(text)) || []
  if (synced !== undefined) {
    reader.noteSynced(Number(synced))
    return undefined
  }
  const key = decodeKey(text)
  if (key === undefined) return 'a newer version of edge wrote it'
  reader.note(key)
  return undefined
}
