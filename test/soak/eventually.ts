import { setTimeout as sleep } from 'node:timers/promises'
import { SoakFailure } from './findings.ts'

const POLL_MS = 20
/** Longer than anything that ends by itself: a half-closed client is found out after 2.85 s, a backend given up after 3. */
const PATIENCE_MS = 30_000

/** Waits for what must happen, and says what did not. `seen` tells what is there instead. */
export async function eventually(what: string, isTrue: () => boolean | Promise<boolean>, seen: () => string = () => ''): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS
  while (!(await isTrue())) {
    if (performance.now() > endMs) throw new SoakFailure(`expected within ${PATIENCE_MS / 1000} s: ${what}. ${seen()}`)
    await sleep(POLL_MS)
  }
}
