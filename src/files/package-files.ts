import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** The bundled program has everything that it reads beside its code. Modules of `src/` and `dist/` find the same files in the checkout. */
const IS_PROGRAM = existsSync(new URL('assets/', import.meta.url))
const FOLDER = new URL(IS_PROGRAM ? './' : '../../', import.meta.url)

const { version } = JSON.parse(readFileSync(new URL('package.json', FOLDER), 'utf8')) as { version: string }

/** The version of this release, from package.json. */
export const VERSION = version

/** The folder of the operators' page, as `npm run build` writes it. */
export const CONSOLE_FOLDER = new URL(IS_PROGRAM ? 'console/' : 'program/console/', FOLDER)

/** Returns the text of a file below `assets/`. */
export function assetText(name: string): string {
  return readFileSync(new URL(`assets/${name}`, FOLDER), 'utf8')
}

/** Returns the path of the country database, which the build copies from its package. */
export function embeddedCountryFile(): string {
  const name = 'geo-whois-asn-country.mmdb'
  if (IS_PROGRAM) return fileURLToPath(new URL(name, FOLDER))
  return createRequire(import.meta.url).resolve(`@ip-location-db/geo-whois-asn-country-mmdb/${name}`)
}
