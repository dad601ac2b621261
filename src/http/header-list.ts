/** Names and values in turn, as they go on the wire. */
export type HeaderList = string[]
