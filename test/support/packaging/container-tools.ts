import { spawnSync } from 'node:child_process'
import { describeWith } from '../describe-with.ts'

/** Tests that build or run containers. They need these programs, packages from npm and Debian, and root, because only root may set up all namespaces. */
export function describeWithContainers(programs: readonly string[], name: string, body: () => void): void {
  describeWith(missingFor(programs), name, body)
}

function missingFor(programs: readonly string[]): string | undefined {
  if (process.getuid?.() !== 0) return 'containers need root'
  const missing = programs.filter((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0)
  return missing.length === 0 ? undefined : `${missing.join(', ')} not installed; on Debian: sh scripts/install-test-parts.sh`
}
