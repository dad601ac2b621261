import type { Deadlines } from './call.ts'
import { createNodeClient, endClient } from './node-client.ts'
import type { ClusterAddress, Endpoint } from './redis-address.ts'

export const SLOTS = 16384

/** Which master serves which slots, as one node of the cluster sees it. */
export interface ClusterMap {
  readonly ranges: readonly SlotRange[]
  /** Masters and replicas, from which the next map can be fetched. */
  readonly members: readonly Endpoint[]
}

interface SlotRange {
  readonly first: number
  readonly last: number
  readonly master: Endpoint
}

/** Reads the reply to CLUSTER SLOTS. An empty host means the one that was asked. */
export function readClusterSlots(reply: unknown, asked: Endpoint): ClusterMap {
  const ranges: SlotRange[] = []
  const members: Endpoint[] = []
  for (const [first, last, ...nodes] of reply as [number, number, ...(readonly [string | null, number])[]][]) {
    const endpoints = nodes.map(([host, port]) => ({ host: host || asked.host, port }))
    // "?" means a node whose name is not known yet.
    members.push(...endpoints.filter(({ host }) => host !== '?'))
    const master = endpoints[0]
    if (master !== undefined && master.host !== '?') ranges.push({ first, last, master })
  }
  return { ranges, members }
}

/** Reads "MOVED 3999 127.0.0.1:6381" or "ASK …". The host may be missing, and IPv6 addresses have no brackets here. */
export function readRedirection(message: string, asked: Endpoint): { readonly slot: number; readonly endpoint: Endpoint } | undefined {
  const [, slotText, host, portText] = /^(?:MOVED|ASK) (\d{1,5}) (\S*):(\d{1,5})$/.exec(message) ?? []
  const slot = Number(slotText)
  if (!(slot < SLOTS) || host === '?') return undefined
  return { slot, endpoint: { host: host || asked.host, port: Number(portText) } }
}

const REPLY_MS = 1000

interface FetchOptions {
  readonly signal: AbortSignal
  readonly deadlines: Deadlines
}

/** Asks a node of a cluster for its map, over a connection of its own, because the node need not be one that we use. */
export async function fetchClusterMap(
  address: ClusterAddress,
  endpoint: Endpoint,
  { signal, deadlines }: FetchOptions,
): Promise<ClusterMap> {
  const client = createNodeClient(address, endpoint)
  let cause: Error | undefined
  client.on('error', (error: Error) => {
    cause ??= error
  })
  const stop = (reason: string) => {
    cause ??= new Error(reason)
    client.disconnect()
    client.stream?.destroy()
  }
  const cancel = deadlines.after(REPLY_MS, () => stop(`no answer within ${REPLY_MS} ms`))
  const onAbort = () => stop('closed')
  signal.addEventListener('abort', onAbort)
  try {
    await client.connect()
    return readClusterSlots(await client.cluster('SLOTS'), endpoint)
  } catch (error) {
    // ioredis rejects with "Connection is closed", whatever the reason.
    throw cause ?? error
  } finally {
    cancel()
    signal.removeEventListener('abort', onAbort)
    await endClient(client)
  }
}

/**
 * Returns the cluster slot of a key: CRC16 (XMODEM) of the text between its first { and the next }, or of the whole key if that text is
 * missing or empty.
 */
export function hashSlot(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key
  return crc16(hashed) % SLOTS
}

/** Computes the CRC of the text's UTF-8 bytes. Keys are ASCII, except for the prefix that an operator sets. */
function crc16(text: string): number {
  let crc = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x7f) return crc16OfBytes(Buffer.from(text))
    crc = step(crc, code)
  }
  return crc
}

function crc16OfBytes(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) crc = step(crc, byte)
  return crc
}

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc & 0xffff
})

function step(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ TABLE[(crc >> 8) ^ byte]!
}
