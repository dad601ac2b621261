import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let root

/** A directory that is gone when the benchmark is over. */
export function newScratchDirectory() {
  root ??= newRoot()
  return mkdtempSync(join(root, 'part-'))
}

function newRoot() {
  const directory = mkdtempSync(join(tmpdir(), 'edge-bench-'))
  process.once('exit', () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 }))
  return directory
}
