import { createRequire } from 'node:module'

const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

/** This release, as package.json says. Like `asset.ts`, this file must stay where it is. */
export const VERSION = version
