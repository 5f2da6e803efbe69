/** Which Supabase this dashboard shows; the file lies beside the page and holds no secret. */
export interface Config {
  supabaseUrl: string;
  publishableKey: string;
  /** On the embedded stack the printed link signs in; elsewhere Supabase Auth does. */
  embedded: boolean;
  version?: string;
}

export async function loadConfig(): Promise<Config> {
  const address = new URL("config.json", document.baseURI);
  const response = await fetch(address, { cache: "no-store" });
  const config = response.ok ? await response.json().catch(() => null) : null;
  if (!config?.supabaseUrl || !config?.publishableKey) {
    throw new Error(
      `${address.pathname} does not say which Supabase to show. It must hold "supabaseUrl" and "publishableKey"; ` +
        "`openmanus-rl dashboard --export` writes it.",
    );
  }
  return config;
}
