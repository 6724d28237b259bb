package workdir

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.org"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestF29ADirectoryBelongsToTheRepositoryThatHoldsIt(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(root, "repo")
	deep := filepath.Join(repo, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, root, "init", "-q", "-b", "trunk", repo)
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "one")
	tree := filepath.Join(root, "tree")
	git(t, repo, "worktree", "add", "-q", "-b", "side", tree)
	link := filepath.Join(root, "link")
	if err := os.Symlink(repo, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		want      Place
	}{
		{"its root", repo, Place{repo, repo, "trunk"}},
		{"a folder in it", deep, Place{deep, repo, "trunk"}},
		{"a symbolic link to it", filepath.Join(link, "a"), Place{filepath.Join(repo, "a"), repo, "trunk"}},
		{"a worktree of it", tree, Place{tree, repo, "side"}},
		{"a folder outside", root, Place{Dir: root}},
		{"a folder that is not there", filepath.Join(root, "none"), Place{Dir: filepath.Join(root, "none")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Of(c.dir); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
