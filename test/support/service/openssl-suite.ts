import { spawnSync } from 'node:child_process'
import { describeWith } from '../describe-with.ts'

/** Tests that need certificates of their own making. */
export function describeWithOpenssl(name: string, body: () => void): void {
  const isInstalled = spawnSync('openssl', ['version']).status === 0
  describeWith(isInstalled ? undefined : 'openssl is not installed', name, body)
}
