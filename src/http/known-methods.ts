import { METHODS } from 'node:http'

/** Those that Node's parser reads. It refuses requests with others, also `get`. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)
