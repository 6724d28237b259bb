package commands

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"decklog/events"
)

// The secrets of these tests are put together from parts, so that no scanner
// takes this file for a leak. None of them ever opened anything.

// noise is n characters of an alphabet, always the same for the same seed.
func noise(seed string, n int, alphabet string) string {
	var b strings.Builder
	for block := []byte(seed); b.Len() < n; {
		sum := sha256.Sum256(block)
		block = sum[:]
		for _, c := range block[:min(len(block), n-b.Len())] {
			b.WriteByte(alphabet[int(c)%len(alphabet)])
		}
	}
	return b.String()
}

const (
	alnum          = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	upper          = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	hexits         = "0123456789abcdef"
	base64Alphabet = alnum + "+/"
)

func pem(kind string, lines int) string {
	var b strings.Builder
	b.WriteString("-----BEGIN " + kind + "-----\n")
	for range lines {
		b.WriteString(noise("pem", 64, base64Alphabet) + "\n")
	}
	b.WriteString("-----END " + kind + "-----")
	return b.String()
}

func TestMaskReplacesKnownSecretsAndCountsThem(t *testing.T) {
	awsSecret := noise("aws", 40, base64Alphabet)
	jwt := "eyJ" + noise("header", 33, alnum) + "." + "eyJ" + noise("payload", 60, alnum) + "." + noise("sign", 43, alnum)
	for _, c := range []struct{ what, body, want string }{
		{"an RSA key", "key:\n" + pem("RSA PRIVATE"+" KEY", 12) + "\nbye", "key:\n[masked:private-key]\nbye"},
		{"an OpenSSH key", pem("OPENSSH PRIVATE"+" KEY", 3), "[masked:private-key]"},
		{"a PKCS8 key", pem("PRIVATE"+" KEY", 3), "[masked:private-key]"},
		{"an encrypted key", pem("ENCRYPTED PRIVATE"+" KEY", 3), "[masked:private-key]"},
		{"a PGP key", pem("PGP PRIVATE"+" KEY BLOCK", 3), "[masked:private-key]"},
		{"a key in a JSON string", `{"k":"` + strings.ReplaceAll(pem("PRIVATE"+" KEY", 2), "\n", `\n`) + `\n"}`, `{"k":"[masked:private-key]\n"}`},
		{"a key that was cut off", "a\n-----BEGIN RSA PRIVATE" + " KEY-----\n" + noise("cut", 64, base64Alphabet) + "\n" + noise("cut2", 20, base64Alphabet), "a\n[masked:private-key]"},
		{"a cut key with headers", "-----BEGIN RSA PRIVATE" + " KEY-----\nProc-Type: 4,ENCRYPTED\n", "[masked:private-key]"},
		{"a cut key in a quotation", "> -----BEGIN PRIVATE" + " KEY-----\n> " + noise("cut", 64, base64Alphabet), "> [masked:private-key]"},
		{"two keys", pem("PRIVATE"+" KEY", 1) + "\nand\n" + pem("EC PRIVATE"+" KEY", 1), "[masked:private-key]\nand\n[masked:private-key]"},
		{"a JWT", "it is " + jwt + ".", "it is [masked:jwt]."},
		{"a JWT in a header", "Authorization: Bearer " + jwt, "Authorization: Bearer [masked:jwt]"},
		{"an AWS access key", "use AKIA" + noise("aws", 16, upper) + " then", "use [masked:aws-access-key] then"},
		{"a temporary AWS access key", "ASIA" + noise("aws", 16, upper), "[masked:aws-access-key]"},
		{"an AWS secret in a shell", "export AWS_SECRET_ACCESS_KEY=" + awsSecret, "export AWS_SECRET_ACCESS_KEY=[masked:aws-secret]"},
		{"an AWS secret in a credentials file", "aws_secret_access_key = " + awsSecret + "\n", "aws_secret_access_key = [masked:aws-secret]\n"},
		{"an AWS secret in JSON", `{"SecretAccessKey": "` + awsSecret + `"}`, `{"SecretAccessKey": "[masked:aws-secret]"}`},
		{"an AWS secret as the tool asks", "AWS Secret Access Key [None]: " + awsSecret, "AWS Secret Access Key [None]: [masked:aws-secret]"},
		{"both AWS keys in a table", "AKIA" + noise("aws", 16, upper) + "," + awsSecret, "[masked:aws-access-key],[masked:aws-secret]"},
		{"a GitHub token", "ghp_" + noise("gh", 36, alnum), "[masked:github-token]"},
		{"a GitHub OAuth token", "gho_" + noise("gh", 36, alnum), "[masked:github-token]"},
		{"a GitHub user token", "ghu_" + noise("gh", 36, alnum), "[masked:github-token]"},
		{"a GitHub app token", "ghs_" + noise("gh", 36, alnum), "[masked:github-token]"},
		{"a GitHub refresh token", "ghr_" + noise("gh", 76, alnum), "[masked:github-token]"},
		{"a fine-grained GitHub token", "github_pat_" + noise("gh", 22, alnum) + "_" + noise("gh2", 59, alnum), "[masked:github-token]"},
		{"a GitHub token that is no noise", "ghp_" + strings.Repeat("a", 36), "[masked:github-token]"},
		{"a token behind an escaped line's end", `"it is\n` + "ghp_" + noise("gh", 36, alnum) + `\n"`, `"it is\n[masked:github-token]\n"`},
		{"a token in a query, escaped", "next=%2Fx%3Fk%3D" + "glpat-" + noise("gl", 20, alnum), "next=%2Fx%3Fk%3D[masked:gitlab-token]"},
		{"a GitLab token", "glpat-" + noise("gl", 20, alnum), "[masked:gitlab-token]"},
		{"a GitLab runner's token", "glrt-" + noise("gl", 20, alnum), "[masked:gitlab-token]"},
		{"a Slack bot's token", "xoxb-" + noise("s", 12, hexits) + "-" + noise("s2", 24, alnum), "[masked:slack-token]"},
		{"a Slack app's token", "xapp-1-" + noise("s", 11, upper) + "-" + noise("s2", 64, hexits), "[masked:slack-token]"},
		{"a Slack webhook", "post to https://hooks.slack" + ".com/services/T" + noise("t", 8, upper) + "/B" + noise("b", 8, upper) + "/" + noise("w", 24, alnum) + " please", "post to [masked:slack-webhook] please"},
		{"an OpenAI project key", "sk-proj-" + noise("o", 74, alnum), "[masked:openai-key]"},
		{"an older OpenAI key", "sk-" + noise("o", 48, alnum), "[masked:openai-key]"},
		{"an Anthropic key", "sk-ant-api03-" + noise("a", 93, alnum+"-_") + "AA", "[masked:anthropic-key]"},
		{"an OpenRouter key", "sk-or-v1-" + noise("o", 64, hexits), "[masked:openrouter-key]"},
		{"a Google API key", "AIza" + noise("g", 35, alnum), "[masked:google-api-key]"},
		{"a Google OAuth secret", "GOCSPX-" + noise("g", 28, alnum), "[masked:google-oauth]"},
		{"a Stripe key", "sk_live_" + noise("s", 24, alnum), "[masked:stripe-key]"},
		{"a restricted Stripe key", "rk_test_" + noise("s", 24, alnum), "[masked:stripe-key]"},
		{"a Stripe webhook's secret", "whsec_" + noise("s", 32, alnum), "[masked:stripe-key]"},
		{"an npm token", "npm_" + noise("n", 36, alnum), "[masked:npm-token]"},
		{"an older npm token", "//registry.example/:_authToken=" + "0f8fad5b-d9cb-469f-" + "a165-70867728950e", "//registry.example/:_authToken=[masked:npm-token]"},
		{"a PyPI token", "pypi-AgE" + "IcHlwaS5vcmc" + noise("p", 60, alnum), "[masked:pypi-token]"},
		{"a SendGrid key", "SG." + noise("sg", 22, alnum) + "." + noise("sg2", 43, alnum), "[masked:sendgrid-key]"},
		{"a Twilio key", "SK" + noise("tw", 32, hexits), "[masked:twilio-key]"},
		{"a Telegram bot's token", "123456789" + ":AA" + noise("tg", 33, alnum), "[masked:telegram-token]"},
		{"a Telegram address", "https://api.telegram.org/bot123456789" + ":AA" + noise("tg", 33, alnum) + "/getMe", "https://api.telegram.org/bot[masked:telegram-token]/getMe"},
		{"a Hugging Face token", "hf_" + noise("hf", 34, alnum), "[masked:hugging-face-token]"},
		{"a DigitalOcean token", "dop_v1_" + noise("do", 64, hexits), "[masked:digitalocean-token]"},
		{"an Azure storage key", "AccountName=x;AccountKey=" + noise("az", 86, base64Alphabet) + "==;EndpointSuffix=y", "AccountName=x;AccountKey=[masked:azure-storage-key];EndpointSuffix=y"},
		{"the password of an address", "postgres://app:" + "hunter2" + "@db.internal:5432/x", "postgres://app:[masked:url-credentials]@db.internal:5432/x"},
		{"a password without a name", "redis://:" + "hunter2" + "@cache/0", "redis://:[masked:url-credentials]@cache/0"},
		{"a password with an @", "https://u:" + "p@ss1" + "@host/x", "https://u:[masked:url-credentials]@host/x"},
		{"two addresses", "a://u:" + "one1" + "@h b://u:" + "two2" + "@h", "a://u:[masked:url-credentials]@h b://u:[masked:url-credentials]@h"},
		{"a token in an address", "https://x-access-token:ghp_" + noise("gh", 36, alnum) + "@github.com/o/r", "https://x-access-token:[masked:github-token]@github.com/o/r"},
		{"a token as the user of an address", "https://ghp_" + noise("gh", 36, alnum) + "@github.com/o/r", "https://[masked:github-token]@github.com/o/r"},
		{"a bearer header", "authorization: bearer " + noise("b", 32, alnum), "authorization: bearer [masked:bearer-token]"},
		{"a short bearer header", "Authorization: Bearer abc" + "12345", "Authorization: Bearer [masked:bearer-token]"},
		{"a header in a program", `h.Set("Authorization", "Bearer ` + noise("b", 40, alnum) + `")`, `h.Set("Authorization", "Bearer [masked:bearer-token]")`},
		{"a basic header", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("aladdin:sesame")), "Authorization: Basic [masked:basic-auth]"},
		{"a password in a program", `password = "` + "hunter22" + `"`, `password = "[masked:password]"`},
		{"a password in JSON", `{"dbPassword":"` + "Tr0ub4dor&3" + `"}`, `{"dbPassword":"[masked:password]"}`},
		{"a password in JSON in JSON", `"{\"password\": \"` + "hunter22" + `\"}"`, `"{\"password\": \"[masked:password]\"}"`},
		{"a password in YAML", "password: " + "hunter22", "password: [masked:password]"},
		{"a password of letters and signs", `passwd: '` + "correct!horse" + `'`, `passwd: '[masked:password]'`},
		{"a password in an environment file", "DB_PASSWORD=" + "s3cr,et;pw" + "\n", "DB_PASSWORD=[masked:password]\n"},
		{"a password as an option", "mysql --password=" + "hunter22" + " db", "mysql --password=[masked:password] db"},
		{"a token as the next argument", "tool --auth-token " + "k9f2m4x7q1" + " run", "tool --auth-token [masked:token] run"},
		{"an API key in YAML", "api_key: " + noise("k", 32, alnum), "api_key: [masked:api-key]"},
		{"an API key header", "X-Api-Key: " + noise("k", 32, hexits), "X-Api-Key: [masked:api-key]"},
		{"an API key in words", "the API key: " + noise("k", 24, alnum), "the API key: [masked:api-key]"},
		{"a token in the environment", "SECRET_TOKEN=" + noise("t", 20, alnum), "SECRET_TOKEN=[masked:token]"},
		{"a token in a query", "GET /x?access_token=" + noise("t", 24, alnum) + "&page=2", "GET /x?access_token=[masked:token]&page=2"},
		{"a client's secret", `client_secret => "` + noise("c", 24, alnum) + `"`, `client_secret => "[masked:secret]"`},
		{"a secret of hex", "SECRET_KEY_BASE=" + noise("c", 64, hexits), "SECRET_KEY_BASE=[masked:secret]"},
		{"a secret of letters alone", `signingKey: "` + noise("letters", 40, alnum[:52]) + `"`, `signingKey: "[masked:secret]"`},
		{"a token in Markdown", "`token`: `" + noise("t", 20, alnum) + "`", "`token`: `[masked:token]`"},
		{"a token after a mapping's index", `headers["x-token"] = "` + noise("t", 20, alnum) + `"`, `headers["x-token"] = "[masked:token]"`},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, counts := Mask([]byte(c.body))
			if string(got) != c.want {
				t.Errorf("Mask(%q)\n got %q\nwant %q", c.body, got, c.want)
			}
			total := 0
			for _, m := range counts {
				total += m.Count
			}
			if want := strings.Count(c.want, "[masked:"); total != want || total == 0 {
				t.Errorf("counted %v, want %d in all", counts, want)
			}
		})
	}
}

func TestMaskLeavesProseCodeHashesAndPlaceholdersAlone(t *testing.T) {
	sha := noise("sha", 40, hexits)
	for _, body := range []string{
		"",
		"thanks, the lease fix is in",
		"commit " + sha + " breaks it; " + sha[:7] + " was fine",
		"sha256:" + noise("sha", 64, hexits),
		"token 4c1d0a52-7b60-5d09-9e6e-0c2f6b1d9a77 was fenced off",
		"token: 4c1d0a52-7b60-5d09-9e6e-0c2f6b1d9a77",
		"session 4c1d0a52-7b60-5d09-9e6e-0c2f6b1d9a77",
		`password := os.Getenv("X")`,
		`password = os.environ["DB_PASSWORD_1"]`,
		`const token = process.env.API_TOKEN_2;`,
		"apiKey: process.env.KEY1,",
		"token = newToken2(secret)",
		"token := tokens[0]",
		"password = newPassword1",
		"password string `json:\"password\"`",
		"function login(user: string, password: string): Promise<Uint8Array>",
		"token: Uint8Array",
		"secret: HMAC-SHA256(salt, body)",
		"password: must be at least 8 characters",
		`"password": "Must contain 1 digit"`,
		`autocomplete: {password: "current-password"}`,
		"PASSWORD=changeme",
		"PASSWORD=changeme123",
		"password: <password>",
		"token = <token>",
		"TOKEN=${GITHUB_TOKEN_1}",
		"TOKEN=$GITHUB_TOKEN_1",
		"token: {{ secrets.token1 }}",
		"api_key: xxxxxxxxxxxx1234",
		"api_key=your-api-key-1",
		"API_KEY=YOUR_API_KEY_1",
		"password: DB_PASSWORD_1",
		"password_file=/run/secrets/db_password1",
		"password: /run/secrets/db_password1",
		"PWD=/home/ana/work1",
		"token_url: https://id.example/oauth2/token",
		"token: https://id.example/oauth2/v1",
		"secretName: my-app-secret-1",
		"secret: my-app-secret-1",
		"max_tokens: 4096000000",
		"token: 1234567890",
		"token_expires: 2026-11-30T09:00:00Z",
		"token: 2026-11-30",
		"nextPageToken: CAUQAA4b7",
		"the tokenizer: cl100kbase",
		"passwords: hunter22",
		"if password == \"\" {",
		`cmd.Env = append(cmd.Env, "PWD="+dir1)`,
		`"secret": "\u3299\ufe0f"`,
		"Authorization: Bearer <token>",
		"Authorization: Bearer ${TOKEN}",
		"Authorization: Bearer $TOKEN",
		"the bearer of this message carries nothing",
		"Authorization: Basic authentication is refused",
		"basic understanding of everything",
		"http://localhost:8080/@user",
		"http://host:8080 mail me@home",
		"see [it](http://a:1)@bob",
		"postgres://user:password@host/db",
		"postgres://user:${PASS}@host/db",
		"postgres://user:<pass>@host/db",
		"postgres://user:****@host/db",
		"ssh://git@example.org:22/x",
		"git@github.com:owner/repo.git",
		"user@host.example:~/x",
		"ghp_" + strings.Repeat("x", 36),
		"sk-" + strings.Repeat("x", 40),
		"AKIA" + strings.Repeat("X", 16),
		"tokens like ghp_ and sk-ant- are masked",
		"the task-" + noise("o", 24, alnum),
		"desk-" + noise("o", 24, alnum),
		"npm_config_registry=x npm_lifecycle_event=y",
		"look for -----BEGIN RSA PRIVATE" + " KEY----- in the file, then tell me",
		"-----BEGIN PRIVATE" + " KEY-----\nis the line to look for",
		"-----BEGIN PUBLIC KEY-----\n" + noise("pub", 64, base64Alphabet) + "\n-----END PUBLIC KEY-----",
		"-----BEGIN CERTIFICATE-----\n" + noise("crt", 64, base64Alphabet) + "\n-----END CERTIFICATE-----",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + noise("pub", 43, base64Alphabet) + " ana@host",
		"data:image/png;base64," + noise("image", 3000, base64Alphabet) + "==",
		"h1:" + noise("go.sum", 43, base64Alphabet) + "=",
		"Asia, Basic, Secret, SG. and eyJ are words",
		"[masked:aws-secret]: " + noise("word", 16, hexits),
		"[masked:jwt] and password = \"[masked:password]\" and x://u:[masked:url-credentials]@h",
	} {
		if got, counts := Mask([]byte(body)); string(got) != body || counts != nil {
			t.Errorf("Mask(%q)\n= %q, %v", body, got, counts)
		}
	}
}

func TestEveryShapeHasWordsThatTheIndexCanHold(t *testing.T) {
	shapes := secretShapes()
	if len(shapes) > 64 {
		t.Errorf("%d shapes, but 64 bits to mark them", len(shapes))
	}
	if n := len(secretWords().words); n > 255 {
		t.Errorf("%d words, but 255 places in a chain", n)
	}
	for _, s := range shapes {
		s.pattern() // panics when it is none
		for _, w := range s.words {
			if len(w) < 3 || w != strings.ToLower(w) {
				t.Errorf("%s: %q is no lower-case word of at least three bytes", s.kind, w)
			}
		}
	}
}

func TestMaskSortsItsCountsByKind(t *testing.T) {
	gh := "ghp_" + noise("gh", 36, alnum)
	body := gh + " " + "password=" + "hunter22" + " " + "AKIA" + noise("aws", 16, upper) + " " + gh
	got, counts := Mask([]byte(body))
	if want := "[masked:github-token] password=[masked:password] [masked:aws-access-key] [masked:github-token]"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []events.Masked{{Kind: "aws-access-key", Count: 1}, {Kind: "github-token", Count: 2}, {Kind: "password", Count: 1}}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
}

func TestASecretInsideAnotherGoesWithAllOfIt(t *testing.T) {
	access, rest := "AKIA"+noise("aws", 16, upper), noise("rest", 20, alnum)
	got, counts := Mask([]byte("SECRET=" + access + ":" + rest))
	if want := "SECRET=[masked:aws-access-key]"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff([]events.Masked{{Kind: "aws-access-key", Count: 1}}, counts); diff != "" {
		t.Error(diff)
	}
}

func TestMaskDoesNotTouchTheBodyThatItWasGiven(t *testing.T) {
	body := []byte("password=" + "hunter22" + " and password=" + "hunter33")
	before := bytes.Clone(body)
	Mask(body)
	if !bytes.Equal(body, before) {
		t.Errorf("body is now %q, was %q", body, before)
	}
}

func TestMaskingTwiceIsMaskingOnce(t *testing.T) {
	parts := []string{
		" ", "\n", "\"", "'", "=", ": ", " = ", ":", "@", "/", "-", "_", ".", "[", "]", "\\n", "x", "1",
		"password", "SECRET_", "token", "--", "bearer ", "basic ", "Authorization: ", "https://u:", "[masked:", "[masked:jwt]",
		"ghp_", "sk-", "sk-ant-", "AKIA", "eyJ", "aws_secret_access_key", "AccountKey=", ":_authToken=", "123456789:A",
		"-----BEGIN PRIVATE" + " KEY-----", "-----END PRIVATE" + " KEY-----",
		noise("a", 40, alnum), noise("b", 16, upper), noise("c", 32, hexits), noise("d", 34, alnum), "hunter" + "22",
	}
	piece := rapid.OneOf(rapid.SampledFrom(parts), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "parts"), "")
		once, _ := Mask([]byte(body))
		twice, counts := Mask(once)
		if !bytes.Equal(once, twice) || counts != nil {
			t.Fatalf("Mask(%q)\n     = %q\nand then %q, %v", body, once, twice, counts)
		}
	})
}

func TestMaskFindsNothingInOurOwnProgram(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source to read: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if _, counts := Mask(text); counts != nil {
			t.Errorf("%s: %v", name, counts)
		}
	}
}

func TestMaskingAnOrdinaryBodyAllocatesNothing(t *testing.T) {
	body := []byte(strings.Repeat("I moved the lease check before the append; please look at ledger.go:120 again.\n", 50))
	Mask(body)
	if n := testing.AllocsPerRun(20, func() { Mask(body) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if got, _ := Mask(body); &got[0] != &body[0] {
		t.Error("a body without a secret was copied")
	}
}

func BenchmarkMask(b *testing.B) {
	for _, c := range []struct{ what, line string }{
		{"ordinary", "I moved the lease check before the append; please look at ledger.go:120 again.\n"},
		{"with words", "the token and the secret are basic: see https://host/x, ask Asia for the password\n"},
	} {
		body := []byte(strings.Repeat(c.line, 4000/len(c.line)))
		b.Run(c.what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Mask(body)
			}
		})
	}
}
