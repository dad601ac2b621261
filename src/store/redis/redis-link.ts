export interface Script {
  readonly text: string
  readonly sha: string
}
export declare class RedisLink {
  readonly isCluster: boolean
  groupOf(key: string): number
  isUsable(group: number): boolean
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<string>
}
export class LinkError extends Error {
  readonly fate: 'not_sent' | 'unknown' | 'refused' = 'unknown'
}
