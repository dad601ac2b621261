import { expect } from 'vitest'
import type { Said } from './command.ts'
import { finished, type Owner } from './running.ts'

/** What `edge health` says with these settings in its environment. */
export async function health(owner: Owner, env: Readonly<Record<string, string>>, ...args: string[]): Promise<Said> {
  const { status, stdout, stderr } = await finished(['health', ...args], env, owner)
  return { status, stdout, stderr }
}

/** For a bundle of version 7. */
export const READY = { status: 0, stdout: 'ready, bundle version 7\n', stderr: '' }

export function unready(reason: RegExp): object {
  return { status: 1, stdout: '', stderr: expect.stringMatching(reason) }
}
