import { setTimeout as sleep } from 'node:timers/promises'
import { SoakFailure } from './findings.ts'

const POLL_MS = 20
/** Only ends what hangs. */
const PATIENCE_MS = 180_000

/** Waits for what must happen, and says what did not. `seen` tells what is there instead. */
export async function eventually(what: string, isTrue: () => boolean | Promise<boolean>, seen: () => string = () => ''): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS
  while (!(await isTrue())) {
    if (performance.now() > endMs) throw new SoakFailure(`expected within ${PATIENCE_MS / 1000} s: ${what}. ${seen()}`)
    await sleep(POLL_MS)
  }
}
