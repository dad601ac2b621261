/** What a listener binds. Only what binds it, and what describes it to people, looks inside. */
export interface ListenAddress {
  /** Undefined: all interfaces. */
  readonly host: string | undefined
  /** 0: one that the system chooses. */
  readonly port: number
}

/** What a server in a worker listens on: an address of its own, or a descriptor that is bound already and shared with other workers. */
export type ListenTarget = ListenAddress | { readonly fd: number }

/** As a sentence about a start that failed has it. */
export function describeAddress({ port }: ListenAddress): string {
  return `port ${port}`
}
