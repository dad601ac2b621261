import type { Endpoint } from './redis-address.ts'

export const SLOTS = 16384

/** Which master serves which slots, as one node of the cluster sees it. */
export interface ClusterMap {
  readonly ranges: readonly SlotRange[]
  /** Masters and replicas: where to fetch the next map from. */
  readonly members: readonly Endpoint[]
}

interface SlotRange {
  readonly first: number
  readonly last: number
  readonly master: Endpoint
}

/** Reads the reply to CLUSTER SLOTS. An empty host stands for the one that was asked. */
export function readClusterSlots(reply: unknown, asked: Endpoint): ClusterMap {
  const ranges: SlotRange[] = []
  const members: Endpoint[] = []
  for (const [first, last, ...nodes] of reply as [number, number, ...(readonly [string | null, number])[]][]) {
    const endpoints = nodes.map(([host, port]) => ({ host: host || asked.host, port }))
    // "?" stands for a node whose name is not known yet.
    members.push(...endpoints.filter(({ host }) => host !== '?'))
    const master = endpoints[0]
    if (master !== undefined && master.host !== '?') ranges.push({ first, last, master })
  }
  return { ranges, members }
}

/** Reads "MOVED 3999 127.0.0.1:6381" or "ASK …". The host may be missing, and IPv6 has no brackets here. */
export function readRedirection(message: string, asked: Endpoint): { readonly slot: number; readonly endpoint: Endpoint } | undefined {
  const [, slotText, host, portText] = /^(?:MOVED|ASK) (\d{1,5}) (\S*):(\d{1,5})$/.exec(message) ?? []
  const slot = Number(slotText)
  if (!(slot < SLOTS) || host === '?') return undefined
  return { slot, endpoint: { host: host || asked.host, port: Number(portText) } }
}
